package dev.terrace.objects.stress;

import dev.terrace.objects.Durable;
import dev.terrace.objects.FixedLength;
import org.jspecify.annotations.Nullable;

/// The object that the tests write and read: numbers, arrays and a string, all in persistent
/// memory.
@Durable
class Pair {
    /// Elements of a row.
    static final int LENGTH = 8;

    long first;
    long second;

    @FixedLength(LENGTH)
    long[] row = new long[LENGTH];

    long @Nullable [] list;
    @Nullable String text;
}
