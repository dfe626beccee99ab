package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Table;
import dev.terrace.objects.evaluation.run.Spread;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// The part of the report on the three numbers.
final class ThreeReport {
    private static final double MIB = 1 << 20;
    private static final double LATER_GOAL = 0.85;
    private static final double ITERATION_GOAL = 1;

    private final ThreeNumbers three;

    ThreeReport(ThreeNumbers three) {
        this.three = three;
    }

    /// How they were measured.
    String text() {
        return "The three numbers are of runs with "
                + three.iterations()
                + " iterations, with G1. A first run has nothing but the text: it makes binary"
                + " files or pools of that in a process of its own, which counts as well, but for"
                + " the start of Spark; the cached RDD of the text needs none. The pools are made"
                + " and read on a quarter of the heap. A goal is judged only if the baseline takes"
                + " at least as much memory as ALL-PMEM with the whole of its pools.";
    }

    /// All of them.
    Table table() {
        return new Table(
                "Three numbers, G1: seconds; medians, least and most in brackets",
                List.of(
                        "source",
                        "heap, MiB",
                        "first run with import",
                        "of that import",
                        "later process",
                        "median of iterations 2 to " + three.iterations(),
                        "resident with pools, MiB"),
                three.runs().stream().map(this::row).toList());
    }

    private List<String> row(SourceRuns runs) {
        return List.of(
                runs.source().title,
                Integer.toString(runs.jvm().heapMib()),
                cell(runs, three::first),
                switch (runs.source()) {
                    case ALL_PMEM -> three.poolImport().toString();
                    case BINARY_CACHED -> three.binaryImport().toString();
                    default -> "0";
                },
                cell(runs, SourceRuns::total),
                cell(runs, ThreeNumbers::laterIteration),
                cell(runs, some -> three.resident(some).times(1 / MIB)));
    }

    private static String cell(SourceRuns runs, Function<SourceRuns, Spread> number) {
        return runs.isDone() ? number.apply(runs).toString() : KMeansSection.HEAP_TOO_SMALL;
    }

    /// The goals, each beside the baseline that is best then.
    List<Claim> claims() {
        return List.of(
                claim("a first run with the import", three::first, null),
                claim("a later process in total", SourceRuns::total, LATER_GOAL),
                claim(
                        "the median of iterations 2 to " + three.iterations(),
                        ThreeNumbers::laterIteration,
                        ITERATION_GOAL));
    }

    private Claim claim(String what, Function<SourceRuns, Spread> number, @Nullable Double goal) {
        SourceRuns best = three.best(number);
        String work =
                "k-means, "
                        + what
                        + ": ALL-PMEM's time on a quarter of the heap to that of the best cached"
                        + " baseline ("
                        + best.source().title
                        + ")";
        if (!three.pmem().isDone()) {
            return Claim.unmeasured(work, "–", KMeansSection.HEAP_TOO_SMALL, goal);
        }
        Claim claim =
                Claim.measured(
                        work, "–", number.apply(three.pmem()).over(number.apply(best)), goal);
        String doubt = three.doubt(best);
        return doubt == null ? claim : claim.doubted(doubt);
    }
}
