package dev.terrace.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/// The tiers that a field's value may be kept on, the best first: it is kept on the first that has
/// room. A field without this tag is kept in [StorageTier#PMEM].
@Documented
@Target({ElementType.FIELD, ElementType.RECORD_COMPONENT})
@Retention(RetentionPolicy.CLASS)
public @interface Tier {
    /// The tiers, the best first.
    StorageTier[] value();
}
