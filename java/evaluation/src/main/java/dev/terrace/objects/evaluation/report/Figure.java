package dev.terrace.objects.evaluation.report;

import com.fasterxml.jackson.annotation.JsonIgnore;
import org.jspecify.annotations.Nullable;

/// A picture of a report, in a file of its own.
///
/// @param name of the file, without its ending
/// @param title what it shows
/// @param svg the file's text; null if the file is there from an earlier run
public record Figure(String name, String title, @JsonIgnore @Nullable String svg) {
    /// The plot of a chart.
    public static Figure of(Chart chart) {
        return new Figure(chart.name(), chart.title(), Plot.of(chart));
    }
}
