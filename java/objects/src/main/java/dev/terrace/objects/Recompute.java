package dev.terrace.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/// Names a static method of the tagged class that computes the value of a field in
/// [StorageTier#DRAM] after the pool was reopened. The method takes the durable object and returns
/// the value. Without this tag the field is zero or null then.
@Documented
@Target({ElementType.FIELD, ElementType.RECORD_COMPONENT})
@Retention(RetentionPolicy.CLASS)
public @interface Recompute {
    /// The method's name.
    String value();
}
