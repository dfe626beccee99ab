package dev.terrace.objects.spark;

import java.io.Serial;
import java.io.Serializable;
import org.jspecify.annotations.Nullable;

/// What the values of a column in a part are like. Bounds are keys whose bytes, compared as unsigned numbers, are in the order of the values.
///
/// @param nulls how many are null
/// @param bytes of all values, as they are stored
/// @param min no value's key is less; null: there is none, or the type has no order
/// @param max no value's key is greater; null: there is none, or nothing is known
record ColumnSummary(long nulls, long bytes, byte @Nullable [] min, byte @Nullable [] max) implements Serializable {
    @Serial
    private static final long serialVersionUID = 1L;
}
