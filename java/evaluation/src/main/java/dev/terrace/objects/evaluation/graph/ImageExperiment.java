package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Repeated;
import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.run.HeapExhaustedException;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.MemoryGroup;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Phase;
import dev.terrace.objects.evaluation.run.Scratch;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// Graph search that looks at large fields of what it finds, in half of the memory that all of them
/// would take: the example of the paper's listings.
public final class ImageExperiment implements Experiment {
    private static final long MIB = 1 << 20;
    private static final long SEED = 5;

    /// A fifth of the copies of the other graph: images take much more room than people.
    private static final int COPIES_SHARE = 5;

    /// Less does not suffice for Java itself.
    private static final int BUDGET_MIB_MIN = 256;

    @Override
    public Section run(Settings settings) throws IOException, InterruptedException {
        SocialGraph graph =
                settings.data() == null ? SyntheticGraph.make() : EgoFacebook.read(settings.data());
        int copies = Math.max(1, settings.copies() / COPIES_SHARE);
        try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
            Path file = scratch.disk().resolve("graph");
            settings.progress().accept("images: writing " + copies + " copies of the graph");
            GraphFile.write(file, graph, copies);
            return new Measuring(settings, graph, copies, file).section();
        }
    }

    /// The work, one process after the other.
    private static final class Measuring {
        private final Settings settings;
        private final SocialGraph graph;
        private final int copies;
        private final int people;
        private final Path file;
        private final List<Query> queries;
        private final int first;
        private final int searches;
        private boolean isLimited = true;
        private boolean isCacheDropped = true;
        private @Nullable Long found;

        Measuring(Settings settings, SocialGraph graph, int copies, Path file) {
            this.settings = settings;
            this.graph = graph;
            this.copies = copies;
            this.file = file;
            people = graph.people() * copies;
            queries = Query.draw(graph, copies, settings.isQuick() ? 200 : 20_000, SEED);
            first = settings.isQuick() ? 500 : 400_000;
            searches = settings.isQuick() ? 500 : 200_000;
        }

        Section section() throws IOException, InterruptedException {
            double liveMib = liveMib();
            double all = liveMib + (double) people * Image.BYTES / MIB;
            ImageLayout.Budget budget =
                    new ImageLayout.Budget(
                            Math.max(BUDGET_MIB_MIN, (int) Math.round(all / 2)), liveMib);
            List<Side> sides =
                    Stream.of(ImageLayout.values())
                            .map(layout -> new Side(layout, budget))
                            .toList();
            Repeated.all(settings, "images", sides.stream().map(Side::repeated).toList());
            ImageMeasurements measured =
                    new ImageMeasurements(
                            (settings.data() == null
                                            ? "a synthetic graph of ego-Facebook's shape"
                                            : "ego-Facebook")
                                    + (copies == 1 ? "" : ", " + copies + " copies of it"),
                            people,
                            liveMib,
                            budget.mib(),
                            sides.stream().map(Side::runs).toList());
            return new ImageSection(measured, doubt(all, budget))
                    .section(settings.command(), isCacheDropped);
        }

        /// Why the measurements decide nothing; null if they do.
        private @Nullable String doubt(double allMib, ImageLayout.Budget budget) {
            if (!isLimited) {
                return "only root can limit memory, with control groups";
            }
            return budget.mib() > allMib ? "too few people to take up memory" : null;
        }

        private double liveMib() throws IOException, InterruptedException {
            settings.progress().accept("images: how much heap people take");
            SearchJob job =
                    new SearchJob(
                            Layout.PACKED, file, file, file, queries, queries.size(), 1, false);
            try {
                return (double)
                                settings.processes()
                                        .run(Jvm.of(Jvm.Collector.G1), job, SearchJob.Result.class)
                                        .result()
                                        .liveBytes()
                        / MIB;
            } catch (HeapExhaustedException e) {
                throw new IOException("this machine has too little memory for people", e);
            }
        }

        /// A layout, measured in each round.
        private final class Side {
            private final ImageLayout layout;
            private final ImageLayout.Budget budget;
            private final Repeated<Outcome<ImageJob.Result>> repeated;
            private long pmemBytes;

            Side(ImageLayout layout, ImageLayout.Budget budget) {
                this.layout = layout;
                this.budget = budget;
                repeated = new Repeated<>(layout.title, this::once);
            }

            Repeated<?> repeated() {
                return repeated;
            }

            ImageMeasurements.Runs runs() {
                return new ImageMeasurements.Runs(
                        layout, layout.heapMib(budget), pmemBytes, repeated.results(), searches);
            }

            /// In one group from the loading on: what lies in persistent memory, which is memory
            /// here, counts like the heap.
            private Outcome<ImageJob.Result> once()
                    throws IOException, InterruptedException, HeapExhaustedException {
                Optional<MemoryGroup> group =
                        settings.isQuick() ? Optional.empty() : MemoryGroup.of(budget.mib() * MIB);
                isLimited &= group.isPresent();
                try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
                    return once(scratch, group.map(this::jvm).orElseGet(this::jvm));
                } finally {
                    if (group.isPresent()) {
                        group.get().close();
                    }
                }
            }

            private Jvm jvm() {
                return Jvm.of(Jvm.Collector.G1).heap(layout.heapMib(budget));
            }

            private Jvm jvm(MemoryGroup group) {
                return jvm().within(group);
            }

            private Outcome<ImageJob.Result> once(Scratch scratch, Jvm jvm)
                    throws IOException, InterruptedException, HeapExhaustedException {
                settings.processes()
                        .run(
                                jvm,
                                new ImageLoadJob(
                                        layout, file, scratch.pmem(), scratch.disk(), people),
                                Phase.class);
                pmemBytes = Scratch.bytes(scratch.pmem());
                isCacheDropped &= settings.dropCaches();
                Outcome<ImageJob.Result> outcome =
                        settings.processes()
                                .run(
                                        jvm,
                                        new ImageJob(
                                                layout,
                                                file,
                                                scratch.pmem(),
                                                scratch.disk(),
                                                people,
                                                queries,
                                                first,
                                                searches),
                                        ImageJob.Result.class);
                check(layout, outcome.result().found());
                return outcome;
            }
        }

        private void check(ImageLayout layout, long sum) {
            if (found != null && found != sum) {
                throw new IllegalStateException(
                        layout.title + " has found other people or images than the layouts before");
            }
            found = sum;
        }
    }
}
