package dev.terrace.objects.placement;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/// A search for the best assignment that leaves out only what a bound shows not to be better than
/// the best one found. It looks at one part of all assignments after the other: first it puts a
/// field on each of its devices in turn, then another field within each of these parts.
final class BranchAndBound {
    /// Steps towards good prices: all parts start at those of the whole, or close to them.
    private static final int FIRST_STEPS = 600;

    private static final int STEPS = 40;

    private final PricedProblem priced;
    private final long end;
    private final int most;
    private final int[] twins;
    private final Deque<Part> parts = new ArrayDeque<>();
    private int @Nullable [] best;
    private double value;

    /// The result of a search.
    ///
    /// @param assignment the best that was found; null if none was
    /// @param lowerBound what no assignment has a lower value than
    /// @param isProved whether no other is better; or, without one, that there is none
    record Answer(int @Nullable [] assignment, double lowerBound, boolean isProved) {}

    /// Those assignments that have one more field at a certain place than those of a larger part.
    ///
    /// @param open of the larger part the devices that each field may lie on
    /// @param field which one; -1 for all assignments
    /// @param device where it is to be
    /// @param prices that were good for the larger part
    /// @param bound what none of them has a lower value than
    private record Part(int[] open, int field, int device, double[] prices, double bound) {
        int[] choices() {
            int[] choices = open.clone();
            if (field >= 0) {
                choices[field] = 1 << device;
            }
            return choices;
        }
    }

    private BranchAndBound(PricedProblem priced, Duration limit, int most) {
        this.priced = priced;
        this.most = most;
        twins = priced.twins();
        end = System.nanoTime() + limit.toNanos();
        value = priced.worst();
    }

    /// Searches for so long at most.
    ///
    /// @param start an assignment that may be good
    /// @param most how many parts are looked at before it gives up
    static Answer search(PricedProblem priced, int[] start, Duration limit, int most) {
        return new BranchAndBound(priced, limit, most).search(start);
    }

    private Answer search(int[] start) {
        offer(start);
        double[] prices = priced.firstPrices();
        parts.push(new Part(priced.choices(), -1, 0, prices, Double.NEGATIVE_INFINITY));
        for (int i = 0; !parts.isEmpty(); i++) {
            if (i >= most || i > 0 && System.nanoTime() - end > 0) {
                double bound = parts.stream().mapToDouble(Part::bound).min().orElseThrow();
                return new Answer(best, Math.min(bound, value), false);
            }
            Part part = parts.pop();
            int[] open = part.choices();
            if (part.bound < priced.enough(value) && order(open)) {
                look(open, part.prices, i == 0 ? FIRST_STEPS : STEPS);
            }
        }
        return new Answer(best, value, true);
    }

    private void offer(int[] assignment) {
        double other = priced.value(assignment);
        if (other < value) {
            value = other;
            best = assignment.clone();
        }
    }

    /// Leaves one of all orders of twins: no one lies on a device before that of its twin.
    ///
    /// @return whether each field still has a device
    private boolean order(int[] open) {
        for (int field = 0; field < open.length; field++) {
            if (twins[field] >= 0) {
                open[field] &= -Integer.lowestOneBit(open[twins[field]]);
            }
        }
        for (int field = open.length - 1; field >= 0; field--) {
            if (twins[field] >= 0) {
                open[twins[field]] &= 2 * Integer.highestOneBit(open[field]) - 1;
            }
        }
        return Arrays.stream(open).allMatch(each -> each != 0);
    }

    private void look(int[] open, double[] prices, int steps) {
        PriceAscent ascent = new PriceAscent(priced, open, prices);
        boolean isHigher = true;
        for (int step = 0; isHigher && step < steps; step++) {
            isHigher = ascent.step(priced.enough(value));
            offer(ascent.assignment());
        }
        offer(Assignments.improved(priced.problem(), ascent.assignment()));
        if (ascent.bound() < priced.enough(value)) {
            split(open, ascent);
        }
    }

    /// Leaves out the devices of fields that the bound shows to be too dear, and splits what is
    /// left by the field that weighs most and is least decided.
    private void split(int[] open, PriceAscent ascent) {
        int[] cheapest = new int[open.length];
        double[] prices = ascent.prices();
        double bound = priced.bound(open, prices, new double[prices.length], cheapest);
        int widest = -1;
        double width = -1;
        for (int field = 0; field < open.length; field++) {
            for (int device : devices(open[field])) {
                if (bound + more(field, device, cheapest, prices) >= priced.enough(value)) {
                    open[field] &= ~(1 << device);
                }
            }
            double undecided = 1.01 - ascent.largestShare(field);
            double each = undecided * priced.spread(field, open[field], prices);
            if (Integer.bitCount(open[field]) > 1 && each > width) {
                width = each;
                widest = field;
            }
        }
        if (widest < 0) {
            offer(cheapest);
            return;
        }
        int field = widest;
        devices(open[field]).stream()
                .map(device -> {
                    double most = bound + more(field, device, cheapest, prices);
                    return new Part(open, field, device, prices, most);
                })
                .sorted((left, right) -> Double.compare(right.bound, left.bound))
                .forEach(parts::push);
    }

    /// What it costs more to have a field there than where it is cheapest.
    private double more(int field, int device, int[] cheapest, double[] prices) {
        return priced.priced(field, device, prices) - priced.priced(field, cheapest[field], prices);
    }

    private static List<Integer> devices(int open) {
        return IntStream.range(0, Integer.SIZE).filter(i -> (open >>> i & 1) != 0).boxed().toList();
    }
}
