package dev.terrace.objects.evaluation.kmeans;

/// The points of a partition, one after the other.
interface Rows {
    /// Goes to the next point, if there is one.
    boolean next();

    /// The coordinates of the point that this is at, until it goes to the next one.
    double[] row();
}
