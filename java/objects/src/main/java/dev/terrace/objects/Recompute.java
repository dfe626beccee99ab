package dev.terrace.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/// How a field that lives in [StorageTier#DRAM] gets its value after the pool was reopened: by a
/// static method of the tagged class that takes the durable object and returns the value. Without
/// this the field is its type's zero, or null, then.
@Documented
@Target({ElementType.FIELD, ElementType.RECORD_COMPONENT})
@Retention(RetentionPolicy.CLASS)
public @interface Recompute {
    /// The method's name.
    String value();
}
