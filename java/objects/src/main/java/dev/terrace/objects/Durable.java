package dev.terrace.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/// A class or record of which objects are to be durable: for `Person`, the class `DurablePerson` is
/// generated in the same package.
@Documented
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.CLASS)
public @interface Durable {
    /// Names that the class had before, fully qualified: a pool that knows it by one of them still
    /// opens.
    String[] formerly() default {};
}
