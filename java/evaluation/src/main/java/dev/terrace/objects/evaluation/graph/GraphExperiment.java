package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.experiment.Experiment;
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

/// Graph search: figures 5 and 6 of the paper.
public final class GraphExperiment implements Experiment {
    private static final int MIB = 1 << 20;

    /// The heap of a process without any people.
    private static final int HEAP_MIB_MIN = 24;

    private static final long SEED = 5;

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
            LayoutRuns heap = runs(Layout.HEAP, Jvm.of(Jvm.Collector.G1));
            double live = (double) heap.searches().getFirst().result().liveBytes() / MIB;
            List<LayoutRuns> plain = new ArrayList<>(List.of(heap));
            List<LayoutRuns> limited = new ArrayList<>();
            List<LayoutRuns> sweep = new ArrayList<>();
            List<LayoutRuns> quarter = new ArrayList<>();
            for (Layout layout : Layout.values()) {
                if (layout != Layout.HEAP) {
                    plain.add(runs(layout, Jvm.of(Jvm.Collector.G1)));
                }
                limited.add(
                        runs(
                                layout,
                                Jvm.of(Jvm.Collector.PARALLEL)
                                        .heap(mib(live * GraphMeasurements.LIMITED))));
            }
            for (Jvm.Collector collector : Jvm.Collector.values()) {
                for (double times :
                        settings.isQuick() ? List.of(2.0) : List.of(1.1, 1.25, 1.5, 2.0, 3.0)) {
                    sweep.add(runs(Layout.HEAP, Jvm.of(collector).heap(mib(live * times))));
                }
            }
            for (Layout layout :
                    settings.isQuick()
                            ? List.of(Layout.SERIALIZED, Layout.SELECT_PMEM)
                            : List.of(Layout.values())) {
                quarter.add(runs(layout, Jvm.of(Jvm.Collector.PARALLEL).heap(mib(live / 4))));
            }
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
                    plain,
                    limited,
                    sweep,
                    quarter);
        }

        private static int mib(double mib) {
            return Math.max(HEAP_MIB_MIN, (int) Math.ceil(mib));
        }

        private LayoutRuns runs(Layout layout, Jvm jvm) throws IOException, InterruptedException {
            List<Outcome<Phase>> loads = new ArrayList<>();
            List<Outcome<SearchJob.Result>> searches = new ArrayList<>();
            Stored stored = Stored.NOTHING;
            try {
                for (int run = 1; run <= settings.runs(); run++) {
                    settings.progress()
                            .accept("graph: " + layout.title + ", " + jvm.title() + ", run " + run);
                    try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
                        if (layout.isStored()) {
                            isCacheDropped &= settings.dropCaches();
                            loads.add(
                                    settings.processes()
                                            .run(
                                                    jvm,
                                                    new LoadJob(
                                                            layout,
                                                            file,
                                                            scratch.pmem(),
                                                            scratch.disk()),
                                                    Phase.class));
                            stored = layout.stored(scratch.pmem(), scratch.disk());
                        }
                        isCacheDropped &= settings.dropCaches();
                        searches.add(
                                settings.processes()
                                        .run(jvm, search(layout, scratch), SearchJob.Result.class));
                        answers.check(layout, searches.getLast().result());
                    }
                }
            } catch (HeapExhaustedException tooSmall) {
                // A result as well: there are no searches then.
                searches.clear();
            }
            return new LayoutRuns(layout, jvm, loads, searches, stored);
        }

        private SearchJob search(Layout layout, Scratch scratch) {
            return layout.isSlow
                    ? new SearchJob(
                            layout,
                            file,
                            scratch.pmem(),
                            scratch.disk(),
                            queries.subList(0, first),
                            first,
                            1)
                    : new SearchJob(
                            layout, file, scratch.pmem(), scratch.disk(), queries, first, rounds);
        }
    }
}
