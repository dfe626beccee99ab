package dev.terrace.objects.internal.collections;

import org.jspecify.annotations.Nullable;

/// Counts what is done with the values in a collection, as done with the field that it was found
/// by.
public interface FieldUse {
    /// A value was read.
    void read(@Nullable Object value);

    /// A value was written.
    void written(@Nullable Object value);
}
