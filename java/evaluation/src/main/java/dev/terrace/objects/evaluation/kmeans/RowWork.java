package dev.terrace.objects.evaluation.kmeans;

import java.io.Serializable;

/// What is done with the points of a partition, in whatever task.
///
/// @param <R> what comes out
@FunctionalInterface
interface RowWork<R extends Serializable> extends Serializable {
    /// Does it.
    R apply(Rows rows);
}
