package dev.terrace.objects.evaluation.kmeans;

import java.io.Serializable;

/// The sums of some points.
///
/// @param coordinates of each cluster, the sums over its points, one cluster after the other
/// @param points of each cluster
/// @param cost squares of the distances between all points and the centres of their clusters, added
record Sums(double[] coordinates, long[] points, double cost) implements Serializable {
    /// Both together.
    static Sums of(Sums one, Sums other) {
        double[] coordinates = one.coordinates.clone();
        for (int i = 0; i < coordinates.length; i++) {
            coordinates[i] += other.coordinates[i];
        }
        long[] points = one.points.clone();
        for (int i = 0; i < points.length; i++) {
            points[i] += other.points[i];
        }
        return new Sums(coordinates, points, one.cost + other.cost);
    }

    /// The centres of all clusters; of one without points the centre that it had.
    double[] centres(double[] before) {
        int dimensions = coordinates.length / points.length;
        double[] centres = before.clone();
        for (int i = 0; i < centres.length; i++) {
            long members = points[i / dimensions];
            if (members > 0) {
                centres[i] = coordinates[i] / members;
            }
        }
        return centres;
    }
}
