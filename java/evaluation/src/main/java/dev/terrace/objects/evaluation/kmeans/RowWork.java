package dev.terrace.objects.evaluation.kmeans;

import java.io.Serializable;

/// Work on the points of a partition, in any task.
///
/// @param <R> what comes out
@FunctionalInterface
interface RowWork<R extends Serializable> extends Serializable {
    /// Does it.
    R apply(Rows rows);
}
