package dev.terrace.objects.evaluation.graph;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/// For how many searches one of two layouts takes no more time than the other: always, for none, or
/// between some numbers of searches.
///
/// @param isAheadAtFirst whether it does for the least number that was measured
/// @param changes where that changes, in ascending order: none if it never does
record BreakEven(boolean isAheadAtFirst, List<Double> changes) {
    /// Copies the list.
    BreakEven {
        changes = List.copyOf(changes);
    }

    /// Of the times that both take until so many searches are done. In between, times are those of
    /// the straight line between two counts.
    ///
    /// @param counts in ascending order, at least one
    /// @throws IllegalArgumentException if there are not as many times as counts
    static BreakEven of(List<Integer> counts, List<Double> ours, List<Double> others) {
        if (counts.isEmpty() || ours.size() != counts.size() || others.size() != counts.size()) {
            throw new IllegalArgumentException(
                    counts.size()
                            + " counts have "
                            + ours.size()
                            + " and "
                            + others.size()
                            + " times");
        }
        List<Double> changes = new ArrayList<>();
        for (int i = 1; i < counts.size(); i++) {
            double before = ours.get(i - 1) - others.get(i - 1);
            double after = ours.get(i) - others.get(i);
            if (before <= 0 != after <= 0) {
                double part = before / (before - after);
                changes.add(counts.get(i - 1) + part * (counts.get(i) - counts.get(i - 1)));
            }
        }
        return new BreakEven(ours.getFirst() <= others.getFirst(), changes);
    }

    /// In words.
    @Override
    public String toString() {
        if (changes.isEmpty()) {
            return isAheadAtFirst ? "always" : "none";
        }
        List<String> parts = new ArrayList<>();
        boolean isAhead = isAheadAtFirst;
        for (double change : changes) {
            parts.add(
                    String.format(Locale.ROOT, isAhead ? "up to %,.0f" : "from %,.0f on", change));
            isAhead = !isAhead;
        }
        return String.join(", ", parts);
    }
}
