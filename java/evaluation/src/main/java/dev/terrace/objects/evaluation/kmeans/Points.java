package dev.terrace.objects.evaluation.kmeans;

import java.io.Serializable;
import java.util.List;

/// All points, wherever they are.
interface Points {
    /// Does some work in each partition.
    <R extends Serializable> List<R> eachPartition(RowWork<R> work);
}
