package dev.terrace.objects.evaluation.run;

import java.util.Arrays;
import java.util.Locale;

/// Several measurements of the same.
///
/// @param median the one in the middle, or the mean of both
/// @param min the least
/// @param max the most
public record Spread(double median, double min, double max) {
    /// Of these numbers.
    ///
    /// @throws IllegalArgumentException if there is none
    public static Spread of(double... numbers) {
        if (numbers.length == 0) {
            throw new IllegalArgumentException("nothing was measured");
        }
        double[] sorted = numbers.clone();
        Arrays.sort(sorted);
        int middle = sorted.length / 2;
        double median =
                sorted.length % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
        return new Spread(median, sorted[0], sorted[sorted.length - 1]);
    }

    /// The same in another unit, of which `factor` are one.
    public Spread times(double factor) {
        return new Spread(median * factor, min * factor, max * factor);
    }

    /// The median, and how far the others lie apart.
    @Override
    public String toString() {
        return min == max
                ? number(median)
                : number(median) + " (" + number(min) + "–" + number(max) + ")";
    }

    /// A number with three digits that count, or all before the point.
    public static String number(double number) {
        double size = Math.abs(number);
        int digits =
                size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4;
        return String.format(Locale.ROOT, "%." + digits + "f", number);
    }
}
