package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.kmeans.KMeansMeasurements.ByCollector;
import dev.terrace.objects.evaluation.report.Chart;
import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Conditions;
import dev.terrace.objects.evaluation.report.Figure;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.report.Table;
import dev.terrace.objects.evaluation.run.GcPauses;
import dev.terrace.objects.evaluation.run.Json;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Memory;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Supplier;
import java.util.function.ToDoubleFunction;
import org.jspecify.annotations.Nullable;

/// The report's section on k-means.
final class KMeansSection {
    private static final double MIB = 1 << 20;
    static final String HEAP_TOO_SMALL = "heap too small";
    private static final List<String> STEPS =
            List.of(KMeans.LOAD, KMeans.INITIAL, KMeans.ITERATION, KMeans.COST);

    /// A row of the paper's table 1.
    ///
    /// @param paperDefault what it states of Spark's own RDD
    /// @param paperTiered what it states of its PMemRDD
    private record GcRow(
            String name, double paperDefault, double paperTiered, ToDoubleFunction<GcPauses> of) {}

    private static final List<GcRow> TABLE_1 =
            List.of(
                    new GcRow("full collections", 23, 12, GcPauses::full),
                    new GcRow("young collections", 1310, 864, GcPauses::young),
                    new GcRow(
                            "pauses of full collections, s", 129.26, 59.52, GcPauses::fullSeconds),
                    new GcRow(
                            "pauses of young collections, s",
                            225.98,
                            158.79,
                            GcPauses::youngSeconds),
                    new GcRow("all pauses, s", 355.34, 218.31, GcPauses::seconds));

    private KMeansSection() {}

    static Section of(Settings settings, KMeansMeasurements measured, boolean isCacheDropped)
            throws IOException {
        List<Table> tables = new ArrayList<>();
        List<Figure> figures = new ArrayList<>();
        List<Claim> claims = new ArrayList<>();
        for (Jvm.Collector collector : Jvm.Collector.values()) {
            if (measured.has(collector)) {
                ByCollector runs = measured.with(collector);
                tables.add(steps(runs));
                tables.add(collections(runs));
                figures.add(Figure.of(chart(runs)));
                claims.addAll(claims(runs));
            }
        }
        ThreeReport three = new ThreeReport(measured.three());
        tables.add(three.table());
        claims.addAll(three.claims());
        tables.add(memory(measured));
        return new Section(
                "kmeans",
                "k-means on Spark (figure 4 and table 1)",
                text(measured),
                Conditions.now(settings.command(), isCacheDropped),
                tables,
                figures,
                claims,
                Json.MAPPER.valueToTree(measured));
    }

    private static List<String> text(KMeansMeasurements measured) {
        return List.of(
                String.format(
                        Locale.ROOT,
                        "%,d points of %d dimensions, %d clusters, %d iterations, Spark in one"
                            + " process on two threads. All sources feed the same algorithm, which"
                            + " makes a pass over all points to load them (they are counted, and"
                            + " cached where they are), one to sample the initial centres, one for"
                            + " each iteration and one for the final cost. Centres and cost of all"
                            + " runs are equal to 1e-9. Spark's own start is not counted in times,"
                            + " but in collections.",
                        measured.rows(),
                        Point.DIMENSIONS,
                        KMeans.CLUSTERS,
                        measured.iterations()),
                "NO-PMEM as the paper's authors ran it parses the text again in each step. The"
                    + " other baselines are what a careful user of Spark would do: the text, a file"
                    + " of binary records, or Parquet, read once and cached. ALL-PMEM is a"
                    + " `DurableRDD` of an object for each point, read in place with `mapInPlace`."
                    + " The table is one of the format `terrace`, with a column for each dimension,"
                    + " which Spark reads as rows.",
                String.format(
                        Locale.ROOT,
                        "The text has %s MiB, the binary file %s MiB, Parquet %s MiB, the pools %s"
                            + " MiB. To bring the text into the pools took %s s; a pool is there"
                            + " for later processes, as it is in the paper.",
                        mib(measured.files().text()),
                        mib(measured.files().binary()),
                        mib(measured.files().parquet()),
                        mib(measured.pmemBytes()),
                        measured.three().poolImport()),
                new ThreeReport(measured.three()).text());
    }

    private static String mib(double bytes) {
        return Spread.number(bytes / MIB);
    }

    private static Table steps(ByCollector measured) {
        List<List<String>> rows = new ArrayList<>();
        for (SourceRuns runs : measured.runs()) {
            List<String> row =
                    new ArrayList<>(
                            List.of(runs.source().title, Integer.toString(runs.jvm().heapMib())));
            row.add(cell(runs, () -> runs.total().toString()));
            row.add(cell(runs, () -> ratio(runs.total(), measured.text().total())));
            STEPS.forEach(step -> row.add(cell(runs, () -> runs.step(step).toString())));
            row.add(cell(runs, () -> runs.of(KMeansJob.Result::cpuSeconds).toString()));
            row.add(cell(runs, () -> Spread.number(runs.gc().seconds())));
            rows.add(row);
        }
        return new Table(
                "Figure 4, "
                        + measured.collector().title
                        + ": seconds; medians, least and most in brackets",
                List.of(
                        "source",
                        "heap, MiB",
                        "all",
                        "to text",
                        KMeans.LOAD,
                        KMeans.INITIAL,
                        "all iterations",
                        KMeans.COST,
                        "of the processors",
                        "stopped by the collector"),
                rows);
    }

    private static String cell(SourceRuns runs, Supplier<String> text) {
        return runs.isDone() ? text.get() : HEAP_TOO_SMALL;
    }

    private static String ratio(Spread one, Spread other) {
        return Spread.number(one.median() / other.median());
    }

    private static Table collections(ByCollector measured) {
        List<List<String>> rows = new ArrayList<>();
        for (GcRow of : TABLE_1) {
            rows.add(
                    List.of(
                            of.name(),
                            Spread.number(of.paperDefault()),
                            Spread.number(of.paperTiered()),
                            Spread.number(of.paperTiered() / of.paperDefault()),
                            value(measured.text(), of),
                            value(measured.best(), of),
                            value(measured.pmem(), of),
                            value(measured.quarter(), of),
                            gcRatio(measured.pmem(), measured.text(), of),
                            gcRatio(measured.pmem(), measured.best(), of)));
        }
        return new Table(
                "Table 1, "
                        + measured.collector().title
                        + ": the paper's sums over 20 executors, and ours of one process",
                List.of(
                        "",
                        "paper: default",
                        "paper: tiered",
                        "paper: ratio",
                        "text",
                        measured.best().source().title,
                        "ALL-PMEM",
                        "ALL-PMEM, a quarter of the heap",
                        "ALL-PMEM to text",
                        "ALL-PMEM to the best cached"),
                rows);
    }

    private static String value(SourceRuns runs, GcRow of) {
        return cell(runs, () -> Spread.number(of.of().applyAsDouble(runs.gc())));
    }

    private static String gcRatio(SourceRuns one, SourceRuns other, GcRow of) {
        if (!one.isDone() || !other.isDone()) {
            return HEAP_TOO_SMALL;
        }
        double below = of.of().applyAsDouble(other.gc());
        return below == 0 ? "–" : Spread.number(of.of().applyAsDouble(one.gc()) / below);
    }

    private static Chart chart(ByCollector measured) {
        List<Chart.Series> series =
                measured.runs().stream()
                        .filter(SourceRuns::isDone)
                        .map(runs ->
                                new Chart.Series(
                                        runs.source().title
                                                + (runs == measured.quarter() ? ", heap / 4" : ""),
                                        STEPS.stream()
                                                .map(step ->
                                                        (@Nullable Double) runs.step(step).median())
                                                .toList()))
                        .toList();
        List<String> groups = List.of(KMeans.LOAD, KMeans.INITIAL, "all iterations", KMeans.COST);
        return new Chart(
                "kmeans-" + measured.collector().name().toLowerCase(Locale.ROOT),
                "Figure 4: major steps of k-means, " + measured.collector().title,
                "s",
                false,
                groups,
                series);
    }

    private static Table memory(KMeansMeasurements measured) {
        List<List<String>> rows = new ArrayList<>();
        for (SourceRuns runs : measured.runs()) {
            rows.add(
                    List.of(
                            runs.source().title,
                            runs.jvm().collector().title,
                            Integer.toString(runs.jvm().heapMib()),
                            cell(runs, () -> memory(runs, Memory::anonymous)),
                            cell(runs, () -> memory(runs, Memory::residentPeak)),
                            inPmem(runs.source(), measured)));
        }
        return new Table(
                "Memory, MiB; what is resident includes mapped pages of persistent memory, which is"
                        + " memory here",
                List.of(
                        "source",
                        "collector",
                        "heap at most",
                        "the process' own",
                        "resident at most",
                        "persistent memory"),
                rows);
    }

    private static String inPmem(Source source, KMeansMeasurements measured) {
        return switch (source) {
            case ALL_PMEM -> mib(measured.pmemBytes());
            case PMEM_TABLE -> mib(measured.tableBytes());
            default -> "0";
        };
    }

    private static String memory(SourceRuns runs, ToDoubleFunction<Memory> of) {
        return mib(runs.memory(of).median());
    }

    private static List<Claim> claims(ByCollector measured) {
        String with = ", " + measured.collector().title;
        SourceRuns text = measured.text();
        SourceRuns best = measured.best();
        SourceRuns pmem = measured.pmem();
        SourceRuns quarter = measured.quarter();
        return List.of(
                claim(
                        "k-means, ALL-PMEM's time to that of text parsed in each step" + with,
                        "0.5",
                        total(pmem, text),
                        0.5),
                claim(
                        "the slowest of its steps to the same step" + with,
                        "less than 1",
                        slowestStep(pmem, text),
                        1.0),
                claim(
                        "ALL-PMEM's time on a quarter of the heap to that of the best baseline ("
                                + best.source().title
                                + ")"
                                + with,
                        "–",
                        total(quarter, best),
                        1.0),
                claim(
                        "pauses for collections, to those of text parsed in each step" + with,
                        "0.614",
                        pauses(pmem, text),
                        0.3),
                claim(
                        "pauses for collections, to those of the best baseline" + with,
                        "–",
                        pauses(pmem, best),
                        null),
                claim(
                        "full collections, to those of text parsed in each step" + with,
                        "0.522",
                        fulls(pmem, text),
                        null));
    }

    private static Claim claim(
            String work, String paper, @Nullable Spread ratio, @Nullable Double goal) {
        return ratio == null
                ? Claim.unmeasured(work, paper, "–", goal)
                : Claim.measured(work, paper, ratio, goal);
    }

    private static @Nullable Spread total(SourceRuns one, SourceRuns other) {
        return one.isDone() && other.isDone() ? one.total().over(other.total()) : null;
    }

    /// In each round the step that is slowest then.
    private static @Nullable Spread slowestStep(SourceRuns one, SourceRuns other) {
        if (!one.isDone() || !other.isDone()) {
            return null;
        }
        return STEPS.stream()
                .map(step -> one.step(step).over(other.step(step)))
                .reduce(Spread::larger)
                .orElseThrow();
    }

    private static @Nullable Spread pauses(SourceRuns one, SourceRuns other) {
        return one.isDone() && other.isDone()
                ? one.of(run -> run.gc().seconds()).over(other.of(run -> run.gc().seconds()))
                : null;
    }

    private static @Nullable Spread fulls(SourceRuns one, SourceRuns other) {
        if (!one.isDone() || !other.isDone()) {
            return null;
        }
        Spread below = other.of(run -> run.gc().full());
        return below.min() > 0 ? one.of(run -> run.gc().full()).over(below) : null;
    }
}
