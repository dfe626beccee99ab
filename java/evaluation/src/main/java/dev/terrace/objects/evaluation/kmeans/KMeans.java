package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.run.Meter;
import java.util.ArrayList;
import java.util.List;

/// Lloyd's algorithm, with a fixed number of iterations, as steps over all points: they are
/// counted, ten of them become the first centres, centres move to the middle of the points that are
/// nearest to them, again and again, and at last the distances are added up.
final class KMeans {
    static final String LOAD = "load";
    static final String INITIAL = "initial centres";
    static final String ITERATION = "iteration";
    static final String COST = "final cost";
    static final int CLUSTERS = 10;

    private final Points points;
    private final Meter meter;

    /// Of these points; each step is a phase of `meter`.
    KMeans(Points points, Meter meter) {
        this.points = points;
        this.meter = meter;
    }

    /// The clusters that were found.
    ///
    /// @param rows how many points there are
    /// @param centres one after the other
    /// @param cost squares of all distances to the nearest centre, added
    record Clusters(long rows, double[] centres, double cost) {
        /// Whether others are the same, but for `tolerance` of each number.
        boolean isAbout(Clusters other, double tolerance) {
            boolean isAbout =
                    rows == other.rows
                            && centres.length == other.centres.length
                            && isAbout(cost, other.cost, tolerance);
            for (int i = 0; isAbout && i < centres.length; i++) {
                isAbout = isAbout(centres[i], other.centres[i], tolerance);
            }
            return isAbout;
        }

        private static boolean isAbout(double one, double other, double tolerance) {
            return Math.abs(one - other) <= tolerance * Math.max(Math.abs(one), Math.abs(other));
        }
    }

    /// Finds the clusters.
    ///
    /// @throws IllegalArgumentException if there are fewer points than clusters
    Clusters run(int iterations) throws Exception {
        long rows =
                meter.phase(
                        LOAD,
                        () ->
                                points.eachPartition(KMeans::count).stream()
                                        .mapToLong(Long::longValue)
                                        .sum());
        double[] centres = meter.phase(INITIAL, this::initial);
        for (int i = 0; i < iterations; i++) {
            double[] before = centres;
            centres = meter.phase(ITERATION, () -> sums(before).centres(before));
        }
        double[] last = centres;
        return new Clusters(rows, centres, meter.phase(COST, () -> sums(last).cost()));
    }

    private static Long count(Rows rows) {
        long count = 0;
        while (rows.next()) {
            count++;
        }
        return count;
    }

    private double[] initial() {
        List<Candidates> some = points.eachPartition(rows -> Candidates.of(rows, CLUSTERS));
        List<double[]> first = Candidates.of(some, CLUSTERS).points();
        if (first.size() < CLUSTERS) {
            throw new IllegalArgumentException(
                    first.size() + " different points cannot be " + CLUSTERS + " clusters");
        }
        double[] centres = new double[CLUSTERS * Point.DIMENSIONS];
        for (int i = 0; i < CLUSTERS; i++) {
            System.arraycopy(first.get(i), 0, centres, i * Point.DIMENSIONS, Point.DIMENSIONS);
        }
        return centres;
    }

    private Sums sums(double[] centres) {
        List<Sums> parts = new ArrayList<>(points.eachPartition(rows -> add(rows, centres)));
        return parts.stream().reduce(Sums::of).orElseThrow();
    }

    private static Sums add(Rows rows, double[] centres) {
        double[] coordinates = new double[centres.length];
        long[] counts = new long[centres.length / Point.DIMENSIONS];
        double cost = 0;
        while (rows.next()) {
            cost += add(rows.row(), centres, coordinates, counts);
        }
        return new Sums(coordinates, counts, cost);
    }

    /// Adds a point to the cluster whose centre is nearest.
    ///
    /// @return the square of its distance
    private static double add(double[] row, double[] centres, double[] coordinates, long[] counts) {
        int nearest = 0;
        double least = Double.MAX_VALUE;
        for (int cluster = 0; cluster < counts.length; cluster++) {
            double square = square(row, centres, cluster * Point.DIMENSIONS);
            if (square < least) {
                least = square;
                nearest = cluster;
            }
        }
        counts[nearest]++;
        int at = nearest * Point.DIMENSIONS;
        for (int i = 0; i < Point.DIMENSIONS; i++) {
            coordinates[at + i] += row[i];
        }
        return least;
    }

    /// The square of a distance. In four sums, so that an addition need not wait for the one
    /// before.
    private static double square(double[] row, double[] centres, int at) {
        double first = 0;
        double second = 0;
        double third = 0;
        double fourth = 0;
        for (int i = 0; i < Point.DIMENSIONS; i += 4) {
            double a = row[i] - centres[at + i];
            double b = row[i + 1] - centres[at + i + 1];
            double c = row[i + 2] - centres[at + i + 2];
            double d = row[i + 3] - centres[at + i + 3];
            first += a * a;
            second += b * b;
            third += c * c;
            fourth += d * d;
        }
        return first + second + (third + fourth);
    }
}
