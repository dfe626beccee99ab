package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Chart;
import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Conditions;
import dev.terrace.objects.evaluation.report.Figure;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.report.Table;
import dev.terrace.objects.evaluation.run.Json;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.function.ToDoubleFunction;
import java.util.function.ToLongFunction;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// The report's section on graph search.
final class GraphSection {
    private static final double MICROS = 1e6;
    private static final double MIB = 1 << 20;

    private static final double LOAD_GOAL = 4;
    private static final double PMEM_GOAL = 0.65;
    private static final double RECORDS_GOAL = 0.45;
    private static final double PERCENT = 100;

    private static final double PACKED_GOAL = 0.9;
    private static final double PACKED_COLUMNS_GOAL = 0.6;

    /// From this share of the time in collections on a heap is not plentiful.
    private static final double GC_SHARE_LIMIT = 0.02;

    /// The paper's lower figure: 40 % less time.
    private static final double GOAL = 0.6;

    private GraphSection() {}

    static Section of(Settings settings, GraphMeasurements measured, boolean isCacheDropped)
            throws IOException {
        CurveReport curves = new CurveReport(measured.curves());
        return new Section(
                "graph",
                "Graph search (figures 5 and 6)",
                text(measured),
                Conditions.now(settings.command(), isCacheDropped),
                List.of(
                        loads(measured),
                        searches(
                                "On as much heap as Java chooses, G1: microseconds of a search",
                                measured.plain()),
                        searches(
                                limited(measured) + ": microseconds of a search",
                                measured.limited()),
                        plentiful(measured, Jvm.Collector.PARALLEL),
                        plentiful(measured, Jvm.Collector.G1),
                        sweep(measured),
                        curves.table(),
                        curves.breakEven(),
                        memory(measured)),
                Stream.of(
                                loadChart(measured),
                                searchChart(
                                        "graph-plain",
                                        "Figure 6, heap as Java chooses",
                                        measured.plain()),
                                searchChart(
                                        "graph-limited",
                                        "Figure 6, heap limited",
                                        measured.limited()),
                                sweepChart(measured),
                                curves.chart())
                        .map(Figure::of)
                        .toList(),
                claims(measured),
                Json.MAPPER.valueToTree(measured));
    }

    private static Table plentiful(GraphMeasurements measured, Jvm.Collector collector) {
        List<LayoutRuns> runs = measured.plentiful(collector);
        return searches(
                "On a plentiful heap of "
                        + heapMib(runs)
                        + " MiB, "
                        + collector.title
                        + ", collected before the searches: microseconds of a search",
                runs);
    }

    private static String limited(GraphMeasurements measured) {
        return "On a heap of " + heapMib(measured.limited()) + " MiB, ParallelGC";
    }

    private static int heapMib(List<LayoutRuns> runs) {
        return runs.getFirst().jvm().heapMib();
    }

    private static List<String> text(GraphMeasurements measured) {
        return List.of(
                String.format(
                        Locale.ROOT,
                        "Who of u's friends works at X, lives in Y, and so on? Of %s: %,d people,"
                            + " %,d friendships, %,d binary features in %d categories, a bit each."
                            + " Five categories are searched by. The paper does not say which graph"
                            + " of the two that it mentions its figures show, nor how many queries"
                            + " were run.",
                        measured.graph(),
                        measured.people(),
                        measured.edges(),
                        Category.featuresOfAll(),
                        Category.ALL.size()),
                "NO-PMEM is *heap objects*: a class with an array for each category, all of it"
                    + " loaded from a text file by each process that searches. *Heap objects,"
                    + " packed* is what a careful programmer makes of it: an array of numbers for"
                    + " all features of a person, and one for the friends. *Heap + Java"
                    + " serialization* has each person in a file on disk, and keeps those that it"
                    + " has read last on half of the heap. *MapDB* has the same in a mapped file in"
                    + " persistent memory, in a form with nothing but its bytes. ALL-PMEM and"
                    + " SELECT-PMEM are pools; the heap has references to the people, and one"
                    + " cursor reads them. In SELECT-PMEM the 22 categories that nobody searches by"
                    + " lie on disk; *in columns* the features of a category lie beside those of"
                    + " other people (`@Columnar`). All are loaded with all features, so loading"
                    + " does not depend on the number of constraints.",
                String.format(
                        Locale.ROOT,
                        "Heap objects take %s MiB of heap. The paper's heap was 4 GiB and its graph"
                            + " a thousandth of that, so how near its heap was to full cannot be"
                            + " told; here the limited heap is %s times what heap objects take, and"
                            + " the sweep shows what other limits do. A plentiful heap is %s times"
                            + " what they take, from the start of a process; it is collected before"
                            + " the searches, on all layouts, and a goal is judged only if"
                            + " collections stop each search for less than %s of the time. People"
                            + " are found by position on all layouts: none has an index. All"
                            + " layouts have found the same people.",
                        Spread.number(measured.liveMib()),
                        Spread.number(GraphMeasurements.LIMITED),
                        Spread.number(GraphMeasurements.PLENTIFUL),
                        percent(GC_SHARE_LIMIT)),
                "A fresh process is measured from Java's start, so with the reading of its"
                    + " questions, which is the same on all layouts, and without any search before."
                    + " Heap objects are loaded by it from the text, while a pool was stored by"
                    + " another process before, which takes the time of \"load\". Searches have one"
                    + " to five constraints, in turn. Between two numbers of searches the"
                    + " break-even is on the straight line.");
    }

    private static Table loads(GraphMeasurements measured) {
        List<List<String>> rows = new ArrayList<>();
        for (int i = 0; i < measured.plain().size(); i++) {
            LayoutRuns plain = measured.plain().get(i);
            LayoutRuns limited = measured.limited().get(i);
            rows.add(
                    List.of(
                            plain.layout().title,
                            cell(plain, runs -> runs.load().toString()),
                            cell(
                                    plain,
                                    runs -> ratio(runs.load(), measured.plain().getFirst().load())),
                            cell(limited, runs -> runs.load().toString()),
                            cell(plain, runs -> runs.open().toString()),
                            cell(limited, runs -> runs.open().toString())));
        }
        return new Table(
                "Figure 5: seconds to load the graph's file, and until a later process can search;"
                        + " medians, least and most in brackets",
                List.of(
                        "layout",
                        "load",
                        "to heap objects",
                        "load, heap limited",
                        "later process",
                        "later process, heap limited"),
                rows);
    }

    private static String cell(LayoutRuns runs, Function<LayoutRuns, String> text) {
        return runs.isDone() ? text.apply(runs) : "heap too small";
    }

    private static String ratio(Spread one, Spread other) {
        return Spread.number(one.median() / other.median());
    }

    private static Table searches(String caption, List<LayoutRuns> all) {
        List<String> columns = new ArrayList<>(List.of("layout"));
        constraints()
                .forEach(constraints ->
                        columns.add(
                                constraints + (constraints == 1 ? " constraint" : " constraints")));
        columns.addAll(List.of("to heap objects", "stopped by the collector"));
        List<List<String>> rows = new ArrayList<>();
        for (LayoutRuns runs : all) {
            List<String> row = new ArrayList<>(List.of(runs.layout().title));
            constraints()
                    .forEach(constraints ->
                            row.add(
                                    cell(
                                            runs,
                                            some ->
                                                    some.search(constraints)
                                                            .times(MICROS)
                                                            .toString())));
            row.add(
                    cell(
                            runs,
                            some ->
                                    all.getFirst().isDone()
                                            ? ratio(some.search(), all.getFirst().search())
                                            : "–"));
            row.add(cell(runs, some -> percent(some.gcShare())));
            rows.add(row);
        }
        return new Table(caption, columns, rows);
    }

    private static List<Integer> constraints() {
        return IntStream.rangeClosed(1, Category.SEARCHED).boxed().toList();
    }

    private static String percent(double share) {
        return Spread.number(share * PERCENT) + " %";
    }

    private static Table sweep(GraphMeasurements measured) {
        List<List<String>> rows = new ArrayList<>();
        for (LayoutRuns runs : concat(measured.sweep(), measured.quarter())) {
            rows.add(
                    List.of(
                            runs.layout().title,
                            runs.jvm().collector().title,
                            Integer.toString(runs.jvm().heapMib()),
                            Spread.number(runs.jvm().heapMib() / measured.liveMib()),
                            cell(runs, some -> some.search().times(MICROS).toString()),
                            cell(runs, some -> percent(some.gcShare())),
                            cell(runs, some -> Spread.number(some.fullCollections()))));
        }
        return new Table(
                "Heaps of other sizes: the mean over one to five constraints",
                List.of(
                        "layout",
                        "collector",
                        "heap, MiB",
                        "to what heap objects take",
                        "µs of a search",
                        "stopped by the collector",
                        "collections of the whole heap"),
                rows);
    }

    private static List<LayoutRuns> concat(List<LayoutRuns> some, List<LayoutRuns> others) {
        List<LayoutRuns> all = new ArrayList<>(some);
        all.addAll(others);
        return all;
    }

    private static Table memory(GraphMeasurements measured) {
        List<List<String>> rows = new ArrayList<>();
        for (LayoutRuns runs : concat(measured.plain(), measured.quarter())) {
            rows.add(
                    List.of(
                            runs.layout().title + ", " + runs.jvm().title(),
                            cell(runs, some -> mib(some, search -> search.result().liveBytes())),
                            cell(runs, some -> mib(some, search -> search.memory().anonymous())),
                            cell(runs, some -> mib(some, search -> search.memory().residentPeak())),
                            Spread.number(runs.stored().pmem() / MIB),
                            Spread.number(runs.stored().records() / MIB),
                            Spread.number(runs.stored().disk() / MIB)));
        }
        return new Table(
                "Memory, MiB; what is resident includes mapped pages of persistent memory, which is"
                        + " memory here",
                List.of(
                        "layout",
                        "heap in use",
                        "the process' own",
                        "resident at most",
                        "persistent memory",
                        "of that records",
                        "disk"),
                rows);
    }

    private static String mib(LayoutRuns runs, ToDoubleFunction<Outcome<SearchJob.Result>> of) {
        return Spread.number(
                Spread.of(runs.searches().stream().mapToDouble(of).toArray()).median() / MIB);
    }

    private static Chart loadChart(GraphMeasurements measured) {
        List<Chart.Series> series = new ArrayList<>();
        for (int i = 0; i < measured.plain().size(); i++) {
            List<LayoutRuns> both = List.of(measured.plain().get(i), measured.limited().get(i));
            series.add(
                    new Chart.Series(
                            both.getFirst().layout().title,
                            values(both, runs -> runs.load().median())));
        }
        return new Chart(
                "graph-load",
                "Figure 5: load time",
                "s",
                false,
                List.of("heap as Java chooses", "heap limited"),
                series);
    }

    private static List<@Nullable Double> values(
            List<LayoutRuns> all, ToDoubleFunction<LayoutRuns> value) {
        List<@Nullable Double> values = new ArrayList<>();
        all.forEach(runs -> values.add(runs.isDone() ? value.applyAsDouble(runs) : null));
        return values;
    }

    /// The layouts that make objects of bytes take ten times as long: beside them the others could
    /// not be told apart.
    private static Chart searchChart(String name, String title, List<LayoutRuns> all) {
        List<Chart.Series> series =
                all.stream()
                        .filter(runs -> runs.isDone() && !runs.layout().isSlow)
                        .map(runs ->
                                new Chart.Series(
                                        runs.layout().title,
                                        constraints().stream()
                                                .map(n ->
                                                        (@Nullable Double)
                                                                (runs.search(n).median() * MICROS))
                                                .toList()))
                        .toList();
        List<String> groups =
                constraints().stream()
                        .map(n -> n + (n == 1 ? " constraint" : " constraints"))
                        .toList();
        return new Chart(name, title, "µs of a search", false, groups, series);
    }

    private static Chart sweepChart(GraphMeasurements measured) {
        List<String> groups =
                measured.sweep().stream()
                        .filter(runs -> runs.jvm().collector() == Jvm.Collector.PARALLEL)
                        .map(runs -> runs.jvm().heapMib() + " MiB")
                        .toList();
        List<Chart.Series> series = new ArrayList<>();
        for (Jvm.Collector collector : Jvm.Collector.values()) {
            series.add(
                    new Chart.Series(
                            "heap objects, " + collector.title,
                            values(
                                    measured.sweep().stream()
                                            .filter(runs -> runs.jvm().collector() == collector)
                                            .toList(),
                                    runs -> runs.search().median() * MICROS)));
        }
        LayoutRuns quarter = measured.quarter().getLast();
        List<@Nullable Double> same = new ArrayList<>();
        groups.forEach(_ ->
                same.addAll(values(List.of(quarter), runs -> runs.search().median() * MICROS)));
        series.add(new Chart.Series("SELECT-PMEM, " + quarter.jvm().heapMib() + " MiB", same));
        return new Chart(
                "graph-heaps",
                "Search on heaps of other sizes",
                "µs of a search",
                true,
                groups,
                series);
    }

    private static List<Claim> claims(GraphMeasurements measured) {
        return List.of(
                claim(
                        "graph search, heap limited: SELECT-PMEM's time to heap objects'",
                        "0.6 to 0.7 (30–40 % less)",
                        measured.limited(),
                        Layout.HEAP,
                        LayoutRuns::search,
                        GOAL),
                packed(measured, Jvm.Collector.PARALLEL, Layout.SELECT_PMEM, PACKED_GOAL),
                packed(measured, Jvm.Collector.G1, Layout.SELECT_PMEM, PACKED_GOAL),
                packed(measured, Jvm.Collector.PARALLEL, Layout.COLUMNS, PACKED_COLUMNS_GOAL),
                packed(measured, Jvm.Collector.G1, Layout.COLUMNS, PACKED_COLUMNS_GOAL),
                claim(
                        "graph search: SELECT-PMEM's time to heap objects' on as much heap as"
                                + " Java chooses",
                        "–",
                        measured.plain(),
                        Layout.HEAP,
                        LayoutRuns::search,
                        null),
                claim(
                        "the same on a quarter of what heap objects take, to heap + Java"
                                + " serialization",
                        "–",
                        measured.quarter(),
                        Layout.SERIALIZED,
                        LayoutRuns::search,
                        null),
                claim(
                        "loading the graph: SELECT-PMEM's time to heap objects'",
                        "more than 1",
                        measured.plain(),
                        Layout.HEAP,
                        LayoutRuns::load,
                        LOAD_GOAL),
                stored(
                        "persistent memory in use: SELECT-PMEM's to ALL-PMEM's",
                        measured,
                        Stored::pmem,
                        PMEM_GOAL),
                stored(
                        "the same of the people's records alone",
                        measured,
                        Stored::records,
                        RECORDS_GOAL),
                claim(
                        "until a later process can search: SELECT-PMEM's time to heap objects'",
                        "–",
                        measured.plain(),
                        Layout.HEAP,
                        LayoutRuns::open,
                        null));
    }

    /// A layout's to that of packed heap objects, on a plentiful heap.
    private static Claim packed(
            GraphMeasurements measured, Jvm.Collector collector, Layout layout, double goal) {
        List<LayoutRuns> runs = measured.plentiful(collector);
        LayoutRuns packed = GraphMeasurements.of(runs, Layout.PACKED);
        LayoutRuns its = GraphMeasurements.of(runs, layout);
        String work =
                "graph search, heap plentiful, "
                        + collector.title
                        + ": time of "
                        + layout.title
                        + " to that of packed heap objects";
        Claim claim = claim(work, "–", its, packed, LayoutRuns::search, goal);
        String doubt = doubt(List.of(packed, its));
        return doubt == null ? claim : claim.doubted(doubt);
    }

    /// Why a heap is not plentiful for these; null if it is.
    static @Nullable String doubt(List<LayoutRuns> runs) {
        return runs.stream()
                .filter(some -> some.isDone() && some.gcShares().max() >= GC_SHARE_LIMIT)
                .findFirst()
                .map(some ->
                        "collections stopped "
                                + some.layout().title
                                + " for "
                                + percent(some.gcShares().max())
                                + " of the time")
                .orElse(null);
    }

    /// SELECT-PMEM's to another layout's, of the same runs.
    private static Claim claim(
            String work,
            String paper,
            List<LayoutRuns> runs,
            Layout other,
            Function<LayoutRuns, Spread> of,
            @Nullable Double goal) {
        return claim(
                work,
                paper,
                GraphMeasurements.of(runs, Layout.SELECT_PMEM),
                GraphMeasurements.of(runs, other),
                of,
                goal);
    }

    /// Those of one layout to those of another.
    private static Claim claim(
            String work,
            String paper,
            LayoutRuns one,
            LayoutRuns other,
            Function<LayoutRuns, Spread> of,
            @Nullable Double goal) {
        if (!one.isDone() || !other.isDone()) {
            return Claim.unmeasured(work, paper, "heap too small", goal);
        }
        return Claim.measured(work, paper, of.apply(one).over(of.apply(other)), goal);
    }

    /// SELECT-PMEM's bytes in use to ALL-PMEM's, which are the same in each round.
    private static Claim stored(
            String work, GraphMeasurements measured, ToLongFunction<Stored> of, double goal) {
        double value =
                (double)
                                of.applyAsLong(
                                        GraphMeasurements.of(measured.plain(), Layout.SELECT_PMEM)
                                                .stored())
                        / of.applyAsLong(
                                GraphMeasurements.of(measured.plain(), Layout.ALL_PMEM).stored());
        return Claim.exact(work, "–", Spread.number(value), value, goal);
    }
}
