package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Repeated;
import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.run.HeapExhaustedException;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Phase;
import dev.terrace.objects.evaluation.run.Scratch;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// Graph search: figures 5 and 6 of the paper.
public final class GraphExperiment implements Experiment {
    private static final int MIB = 1 << 20;

    /// The heap of a process without any people.
    private static final int HEAP_MIB_MIN = 24;

    private static final long SEED = 5;

    /// How many numbers of searches of a fresh process are measured: up to a million.
    private static final int COUNTS = 7;

    private static final int COUNTS_QUICK = 4;

    /// Looks whether a file is the data set: better before all other measurements than after them.
    ///
    /// @throws IOException if it is not
    public static void check(Path data) throws IOException {
        EgoFacebook.read(data);
    }

    @Override
    public Section run(Settings settings) throws IOException, InterruptedException {
        SocialGraph graph =
                settings.data() == null ? SyntheticGraph.make() : EgoFacebook.read(settings.data());
        try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
            Path file = scratch.disk().resolve("graph");
            settings.progress()
                    .accept("graph: writing " + settings.copies() + " copies of the graph");
            GraphFile.write(file, graph, settings.copies());
            Measuring measuring = new Measuring(settings, graph, file);
            return GraphSection.of(settings, measuring.all(), measuring.isCacheDropped);
        }
    }

    /// The work, one process after the other.
    private static final class Measuring {
        private final Settings settings;
        private final SocialGraph graph;
        private final Path file;
        private final List<Query> queries;
        private final int first;
        private final int rounds;
        private final Answers answers = new Answers();
        private boolean isCacheDropped = true;

        Measuring(Settings settings, SocialGraph graph, Path file) {
            this.settings = settings;
            this.graph = graph;
            this.file = file;
            queries = Query.draw(graph, settings.copies(), settings.isQuick() ? 200 : 20_000, SEED);
            first = settings.isQuick() ? 50 : 2000;
            rounds = settings.isQuick() ? 2 : 20;
        }

        GraphMeasurements all() throws IOException, InterruptedException {
            double live = live();
            Jvm.Collector parallel = Jvm.Collector.PARALLEL;
            List<Search> plain = searches(Jvm.of(Jvm.Collector.G1), Layout.values());
            List<Search> limited =
                    searches(
                            Jvm.of(parallel).heap(mib(live * GraphMeasurements.LIMITED)),
                            Layout.values());
            List<Search> plentiful = new ArrayList<>();
            for (Jvm.Collector collector : Jvm.Collector.values()) {
                int heap = mib(live * GraphMeasurements.PLENTIFUL);
                // All of it from the start, so that it grows in none of the searches.
                Jvm jvm = Jvm.of(collector).heap(heap).with(List.of("-Xms" + heap + "m"));
                for (Layout layout :
                        List.of(Layout.HEAP, Layout.PACKED, Layout.SELECT_PMEM, Layout.COLUMNS)) {
                    plentiful.add(search(layout, jvm, true));
                }
            }
            List<Search> sweep = new ArrayList<>();
            for (Jvm.Collector collector : Jvm.Collector.values()) {
                for (double times :
                        settings.isQuick() ? List.of(2.0) : List.of(1.1, 1.25, 1.5, 2.0, 3.0)) {
                    sweep.add(
                            search(Layout.HEAP, Jvm.of(collector).heap(mib(live * times)), false));
                }
            }
            List<Search> quarter =
                    searches(
                            Jvm.of(parallel).heap(mib(live / 4)),
                            settings.isQuick()
                                    ? new Layout[] {Layout.SERIALIZED, Layout.SELECT_PMEM}
                                    : Layout.values());
            List<Curve> curves =
                    Stream.of(Layout.HEAP, Layout.PACKED, Layout.ALL_PMEM, Layout.SELECT_PMEM)
                            .map(this::curve)
                            .toList();
            Stream<Repeated<?>> searches =
                    Stream.of(plain, limited, plentiful, sweep, quarter)
                            .flatMap(all -> all.stream().map(Search::repeated));
            Repeated.all(
                    settings,
                    "graph",
                    Stream.concat(searches, curves.stream().map(Curve::repeated)).toList());
            String name =
                    settings.data() == null
                            ? "a synthetic graph of ego-Facebook's shape"
                            : "ego-Facebook";
            return new GraphMeasurements(
                    name
                            + (settings.copies() == 1
                                    ? ""
                                    : ", " + settings.copies() + " copies of it"),
                    graph.people() * settings.copies(),
                    graph.edges() * settings.copies(),
                    live,
                    runs(plain),
                    runs(limited),
                    runs(plentiful),
                    runs(sweep),
                    runs(quarter),
                    curves.stream().map(Curve::runs).toList());
        }

        private static int mib(double mib) {
            return Math.max(HEAP_MIB_MIN, (int) Math.ceil(mib));
        }

        /// MiB of the heap that heap objects take, in a process that is not counted.
        private double live() throws IOException, InterruptedException {
            settings.progress().accept("graph: how much heap it takes");
            try {
                return (double)
                                once(Layout.HEAP, Jvm.of(Jvm.Collector.G1), false)
                                        .search()
                                        .result()
                                        .liveBytes()
                        / MIB;
            } catch (HeapExhaustedException e) {
                throw new IOException(
                        "this machine has too little memory for "
                                + settings.copies()
                                + " copies of the graph: try fewer with --copies",
                        e);
            }
        }

        /// A round of a layout.
        ///
        /// @param load how it was stored; null if it is not
        /// @param stored what that takes
        private record Round(
                @Nullable Outcome<Phase> load, Stored stored, Outcome<SearchJob.Result> search) {}

        /// Searches of a layout, in each round.
        private record Search(Layout layout, Jvm jvm, Repeated<Round> repeated) {
            LayoutRuns runs() {
                List<Round> rounds = repeated.results();
                return new LayoutRuns(
                        layout,
                        jvm,
                        rounds.stream().map(Round::load).filter(Objects::nonNull).toList(),
                        rounds.stream().map(Round::search).toList(),
                        rounds.isEmpty() ? Stored.NOTHING : rounds.getLast().stored());
            }
        }

        private static List<LayoutRuns> runs(List<Search> searches) {
            return searches.stream().map(Search::runs).toList();
        }

        private List<Search> searches(Jvm jvm, Layout... layouts) {
            return Stream.of(layouts).map(layout -> search(layout, jvm, false)).toList();
        }

        private Search search(Layout layout, Jvm jvm, boolean isSettled) {
            return new Search(
                    layout,
                    jvm,
                    new Repeated<>(
                            layout.title + ", " + jvm.title(), () -> once(layout, jvm, isSettled)));
        }

        private Round once(Layout layout, Jvm jvm, boolean isSettled)
                throws IOException, InterruptedException, HeapExhaustedException {
            try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
                Outcome<Phase> load = store(layout, jvm, scratch);
                Stored stored =
                        layout.isStored()
                                ? layout.stored(scratch.pmem(), scratch.disk())
                                : Stored.NOTHING;
                isCacheDropped &= settings.dropCaches();
                Outcome<SearchJob.Result> search =
                        settings.processes()
                                .run(jvm, job(layout, scratch, isSettled), SearchJob.Result.class);
                answers.check(layout, search.result());
                return new Round(load, stored, search);
            }
        }

        /// Stores people if the layout is stored.
        private @Nullable Outcome<Phase> store(Layout layout, Jvm jvm, Scratch scratch)
                throws IOException, InterruptedException, HeapExhaustedException {
            if (!layout.isStored()) {
                return null;
            }
            isCacheDropped &= settings.dropCaches();
            LoadJob job = new LoadJob(layout, file, scratch.pmem(), scratch.disk());
            return settings.processes().run(jvm, job, Phase.class);
        }

        /// A fresh process of a layout, in each round.
        private record Curve(
                Layout layout, List<Integer> counts, Repeated<CurveJob.Result> repeated) {
            CurveRuns runs() {
                return new CurveRuns(
                        layout,
                        counts,
                        repeated.results().stream().map(CurveJob.Result::seconds).toList());
            }
        }

        private Curve curve(Layout layout) {
            List<Integer> counts =
                    IntStream.iterate(1, count -> count * 10)
                            .limit(settings.isQuick() ? COUNTS_QUICK : COUNTS)
                            .boxed()
                            .toList();
            return new Curve(
                    layout,
                    counts,
                    new Repeated<>(
                            layout.title + ", " + counts.getLast() + " searches of a fresh process",
                            () -> fresh(layout, counts)));
        }

        private CurveJob.Result fresh(Layout layout, List<Integer> counts)
                throws IOException, InterruptedException, HeapExhaustedException {
            Jvm jvm = Jvm.of(Jvm.Collector.G1);
            try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
                store(layout, jvm, scratch);
                isCacheDropped &= settings.dropCaches();
                CurveJob job =
                        new CurveJob(
                                layout,
                                file,
                                scratch.pmem(),
                                scratch.disk(),
                                queries.subList(0, first),
                                counts);
                CurveJob.Result result =
                        settings.processes().run(jvm, job, CurveJob.Result.class).result();
                answers.check(layout, result);
                return result;
            }
        }

        private SearchJob job(Layout layout, Scratch scratch, boolean isSettled) {
            return new SearchJob(
                    layout,
                    file,
                    scratch.pmem(),
                    scratch.disk(),
                    layout.isSlow ? queries.subList(0, first) : queries,
                    first,
                    layout.isSlow ? 1 : rounds,
                    isSettled);
        }
    }
}
