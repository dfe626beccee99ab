package dev.terrace.objects;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/// The tiers for a field's value, the best first: the value is kept on the first tier that has
/// room. A field without this tag is kept in [StorageTier#PMEM].
@Documented
@Target({ElementType.FIELD, ElementType.RECORD_COMPONENT})
@Retention(RetentionPolicy.CLASS)
public @interface Tier {
    /// The tiers, the best first.
    StorageTier[] value();
}
