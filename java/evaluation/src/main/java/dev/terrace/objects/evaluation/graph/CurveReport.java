package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.report.Chart;
import dev.terrace.objects.evaluation.report.Table;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The part of the report on fresh processes that do so many searches.
final class CurveReport {
    private final List<CurveRuns> all;

    CurveReport(List<CurveRuns> all) {
        this.all = all;
    }

    /// Seconds by layout and number of searches.
    Table table() {
        List<String> columns = new ArrayList<>(List.of("layout"));
        columns.addAll(counts());
        List<List<String>> rows = new ArrayList<>();
        for (CurveRuns runs : all) {
            List<String> row = new ArrayList<>(List.of(runs.layout().title));
            runs.seconds().forEach(seconds -> row.add(seconds.toString()));
            rows.add(row);
        }
        return new Table(
                "Seconds from the start of a process until so many searches are done, with the"
                        + " loading of people or the opening of a pool, on as much heap as Java"
                        + " chooses, G1; medians, least and most in brackets",
                columns,
                rows);
    }

    private List<String> counts() {
        return all.getFirst().counts().stream()
                .map(count -> String.format(Locale.ROOT, "%,d", count))
                .toList();
    }

    /// For how many searches pools are the faster ones.
    Table breakEven() {
        List<List<String>> rows = new ArrayList<>();
        for (Layout pool : List.of(Layout.ALL_PMEM, Layout.SELECT_PMEM)) {
            for (Layout heap : List.of(Layout.HEAP, Layout.PACKED)) {
                rows.add(
                        List.of(
                                pool.title,
                                heap.title,
                                of(pool).against(of(heap)).toString(),
                                of(pool).roundsAgainst(of(heap)).stream()
                                        .map(BreakEven::toString)
                                        .collect(Collectors.joining("; "))));
            }
        }
        return new Table(
                "Break-even: for how many searches of a process, of those above, a pool takes no"
                        + " more time than the heap",
                List.of("pool", "heap", "by the medians", "in each round"),
                rows);
    }

    private CurveRuns of(Layout layout) {
        return all.stream().filter(runs -> runs.layout() == layout).findFirst().orElseThrow();
    }

    /// The same as a picture.
    Chart chart() {
        return new Chart(
                "graph-curve",
                "From the start of a process until so many searches are done",
                "s",
                true,
                counts(),
                all.stream().map(CurveReport::series).toList());
    }

    private static Chart.Series series(CurveRuns runs) {
        Stream<@Nullable Double> medians =
                runs.seconds().stream().map(seconds -> (@Nullable Double) seconds.median());
        return new Chart.Series(runs.layout().title, medians.toList());
    }
}
