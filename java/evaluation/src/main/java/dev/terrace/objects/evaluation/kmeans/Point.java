package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.Durable;
import dev.terrace.objects.FixedLength;
import java.io.Serializable;

/// A point.
///
/// @param coordinates as many as there are dimensions
@Durable
record Point(@FixedLength(DIMENSIONS) double[] coordinates) implements Serializable {
    /// Of the paper's points.
    static final int DIMENSIONS = 12;
}
