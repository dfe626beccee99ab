package dev.terrace.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/// Marks a class or record whose objects are to be durable: for `Person`, the class `DurablePerson`
/// is generated in the same package.
@Documented
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.CLASS)
public @interface Durable {
    /// Former names of the class, fully qualified: a pool that stores the class under one of them
    /// still opens.
    String[] formerly() default {};
}
