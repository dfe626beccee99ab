package dev.terrace.objects.placement;

import java.util.List;

/// The cost of an access as a function of its bytes: measured points, and straight lines between
/// them. Before the first point the cost is constant; after the last point the last line continues.
///
/// @param points by bytes, each larger than the one before; at least one
public record CostTable(List<Point> points) {
    /// The cost of an access of so many bytes.
    ///
    /// @param bytes not negative
    /// @param nanos not negative
    public record Point(long bytes, double nanos) {
        /// Checks the numbers.
        public Point {
            if (bytes < 0 || !(nanos >= 0) || Double.isInfinite(nanos)) {
                throw new IllegalArgumentException(
                        "an access of " + bytes + " bytes that costs " + nanos + " ns");
            }
        }
    }

    /// Checks the points.
    public CostTable {
        points = List.copyOf(points);
        if (points.isEmpty()) {
            throw new IllegalArgumentException("a table of costs has no points: give at least one");
        }
        for (int i = 1; i < points.size(); i++) {
            if (points.get(i).bytes() <= points.get(i - 1).bytes()) {
                throw new IllegalArgumentException(
                        "a table of costs has "
                                + points.get(i).bytes()
                                + " bytes behind "
                                + points.get(i - 1).bytes()
                                + ": each point is of more than the one before");
            }
        }
    }

    /// The same for any number of bytes.
    public static CostTable constant(double nanos) {
        return new CostTable(List.of(new Point(0, nanos)));
    }

    /// The cost of an access of so many bytes, in nanoseconds; never below 0.
    public double nanos(double bytes) {
        Point left = points.getFirst();
        if (points.size() == 1 || bytes <= left.bytes()) {
            return left.nanos();
        }
        int i = 1;
        while (i < points.size() - 1 && points.get(i).bytes() < bytes) {
            i++;
        }
        left = points.get(i - 1);
        Point right = points.get(i);
        double slope = (right.nanos() - left.nanos()) / (right.bytes() - left.bytes());
        return Math.max(0, left.nanos() + slope * (bytes - left.bytes()));
    }
}
