package dev.terrace.objects.bench;

import dev.terrace.objects.Durable;
import dev.terrace.objects.FixedLength;
import org.jspecify.annotations.Nullable;

/// A number, a row of numbers, and a text, all in persistent memory.
@Durable
class Sample {
    /// Elements of a row.
    static final int DIMENSIONS = 12;

    int number;

    @FixedLength(DIMENSIONS)
    double[] row = new double[DIMENSIONS];

    @Nullable String text;
}
