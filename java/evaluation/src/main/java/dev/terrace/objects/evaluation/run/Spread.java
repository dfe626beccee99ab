package dev.terrace.objects.evaluation.run;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.function.DoubleBinaryOperator;

/// Several measurements of the same, in the order in which they were made: one of each round.
///
/// @param values at least one
public record Spread(List<Double> values) {
    /// Copies the list.
    ///
    /// @throws IllegalArgumentException if it is empty
    public Spread {
        values = List.copyOf(values);
        if (values.isEmpty()) {
            throw new IllegalArgumentException("nothing was measured");
        }
    }

    /// Of these numbers.
    ///
    /// @throws IllegalArgumentException if there is none
    public static Spread of(double... numbers) {
        return new Spread(Arrays.stream(numbers).boxed().toList());
    }

    /// The one in the middle, or the mean of both.
    public double median() {
        List<Double> sorted = values.stream().sorted().toList();
        int middle = sorted.size() / 2;
        return sorted.size() % 2 == 1
                ? sorted.get(middle)
                : (sorted.get(middle - 1) + sorted.get(middle)) / 2;
    }

    /// The least.
    public double min() {
        return Collections.min(values);
    }

    /// The most.
    public double max() {
        return Collections.max(values);
    }

    /// The same in another unit, of which `factor` are one.
    public Spread times(double factor) {
        return new Spread(values.stream().map(value -> value * factor).toList());
    }

    /// The sums of these and others of the same round.
    public Spread plus(Spread others) {
        return new Spread(pairs(others, Double::sum));
    }

    /// The larger of these and others in each round.
    public Spread larger(Spread others) {
        return new Spread(pairs(others, Math::max));
    }

    /// The ratios of these to others, each to that of the same round: what disturbs a machine for a
    /// while disturbs both.
    public Spread over(Spread others) {
        return new Spread(pairs(others, (one, other) -> one / other));
    }

    /// The geometric means of several, in each round.
    ///
    /// @throws IllegalArgumentException if there is none, or the rounds differ
    public static Spread geometricMean(List<Spread> some) {
        Spread logarithms =
                some.stream()
                        .map(one -> new Spread(one.values.stream().map(Math::log).toList()))
                        .reduce(Spread::plus)
                        .orElseThrow(() -> new IllegalArgumentException("a mean of nothing"));
        return new Spread(
                logarithms.values.stream().map(sum -> Math.exp(sum / some.size())).toList());
    }

    private List<Double> pairs(Spread others, DoubleBinaryOperator of) {
        if (values.size() != others.values.size()) {
            throw new IllegalArgumentException(
                    values.size() + " rounds and " + others.values.size() + " are not the same");
        }
        Double[] all = new Double[values.size()];
        Arrays.setAll(all, i -> of.applyAsDouble(values.get(i), others.values.get(i)));
        return List.of(all);
    }

    /// The median, and how far the others lie apart.
    @Override
    public String toString() {
        double min = min();
        double max = max();
        return min == max
                ? number(min)
                : number(median()) + " (" + number(min) + "–" + number(max) + ")";
    }

    /// A number with three digits that count, or all before the point.
    public static String number(double number) {
        double size = Math.abs(number);
        int digits =
                size >= 100 || size == 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.1 ? 3 : 4;
        return String.format(Locale.ROOT, "%." + digits + "f", number);
    }
}
