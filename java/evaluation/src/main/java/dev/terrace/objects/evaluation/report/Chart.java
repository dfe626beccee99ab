package dev.terrace.objects.evaluation.report;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// A plot: for each of some groups a number of each series, from zero upwards.
///
/// @param name of its file, without the ending
/// @param title what it shows
/// @param unit of the numbers
/// @param isLines whether each series is a line rather than a bar in each group
/// @param groups what stands below
/// @param series what is compared
public record Chart(
        String name,
        String title,
        String unit,
        boolean isLines,
        List<String> groups,
        List<Series> series) {
    /// Copies the lists, and checks that all series have a number for each group.
    public Chart {
        groups = List.copyOf(groups);
        series = List.copyOf(series);
        for (Series one : series) {
            if (one.values().size() != groups.size()) {
                throw new IllegalArgumentException(
                        title
                                + ": "
                                + one.name()
                                + " has "
                                + one.values().size()
                                + " numbers, not "
                                + groups.size());
            }
        }
    }

    /// Numbers of one kind.
    ///
    /// @param name what they are of
    /// @param values one for each group; null if there is none
    public record Series(String name, List<@Nullable Double> values) {}
}
