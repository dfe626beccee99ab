package dev.terrace.objects.evaluation.kmeans;

import java.io.Serializable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/// The points of some partitions that come first in an order that has nothing to do with where they
/// lie: a sample that is the same however points are divided into partitions.
///
/// @param points in this order
record Candidates(List<double[]> points) implements Serializable {
    private static final long GOLDEN = 0x9e3779b97f4a7c15L;
    private static final Comparator<double[]> ORDER =
            Comparator.comparingLong(Candidates::rank).thenComparing(Arrays::compare);

    /// The first `count` of these rows, no two of them the same.
    static Candidates of(Rows rows, int count) {
        List<double[]> first = new ArrayList<>();
        long last = Long.MAX_VALUE;
        while (rows.next()) {
            if (rank(rows.row()) <= last) {
                first.add(rows.row().clone());
                if (first.size() >= 2 * count) {
                    first = first(first, count);
                    last = rank(first.getLast());
                }
            }
        }
        return new Candidates(first(first, count));
    }

    /// The first of all.
    static Candidates of(List<Candidates> all, int count) {
        return new Candidates(
                first(all.stream().flatMap(some -> some.points.stream()).toList(), count));
    }

    private static List<double[]> first(List<double[]> points, int count) {
        List<double[]> sorted = new ArrayList<>(points.stream().sorted(ORDER).toList());
        for (int i = sorted.size() - 1; i > 0; i--) {
            if (Arrays.equals(sorted.get(i), sorted.get(i - 1))) {
                sorted.remove(i);
            }
        }
        return new ArrayList<>(sorted.subList(0, Math.min(count, sorted.size())));
    }

    private static long rank(double[] point) {
        long hash = 0;
        for (double coordinate : point) {
            hash = (hash ^ Double.doubleToRawLongBits(coordinate)) * GOLDEN;
            hash ^= hash >>> 32;
        }
        return hash;
    }
}
