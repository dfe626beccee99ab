package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Repeated;
import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.run.HeapExhaustedException;
import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Phase;
import dev.terrace.objects.evaluation.run.Scratch;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// k-means on Spark: figure 4 and table 1 of the paper.
public final class KMeansExperiment implements Experiment {
    private static final int ITERATIONS = 10;
    private static final int ITERATIONS_QUICK = 2;

    /// The heap that Spark needs to start, in MiB: 450 without one of the young generation's
    /// spaces, which ParallelGC does not count.
    private static final int HEAP_MIB_MIN = 512;

    /// Room for all points on the heap: Spark keeps them on little more than half of it, and each
    /// takes an array's header more than its numbers.
    private static final long HEAP_BYTES_EACH = 264;

    /// How far centres may differ, to their size: sums are added in another order.
    private static final double TOLERANCE = 1e-9;

    @Override
    public Section run(Settings settings) throws IOException, InterruptedException {
        try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
            Measuring measuring =
                    new Measuring(settings, new PointFiles(scratch.disk()), scratch.pmem());
            return KMeansSection.of(settings, measuring.all(), measuring.isCacheDropped);
        }
    }

    /// The work, one process after the other.
    private static final class Measuring {
        private final Settings settings;
        private final PointFiles files;
        private final Path pmem;
        private final int iterations;
        private boolean isCacheDropped = true;
        private KMeans.@Nullable Clusters found;

        Measuring(Settings settings, PointFiles files, Path pmem) {
            this.settings = settings;
            this.files = files;
            this.pmem = pmem;
            iterations = settings.isQuick() ? ITERATIONS_QUICK : ITERATIONS;
        }

        KMeansMeasurements all() throws IOException, InterruptedException {
            settings.progress().accept("kmeans: writing " + settings.rows() + " points");
            result(new WriteJob(files, settings.rows()), Phase.class);
            settings.progress().accept("kmeans: storing them as Parquet, as a table, and in pools");
            List<Phase> stored =
                    result(
                                    new StoreJob(
                                            List.of(
                                                    Source.PARQUET_CACHED,
                                                    Source.PMEM_TABLE,
                                                    Source.ALL_PMEM),
                                            files,
                                            pmem),
                                    StoreJob.Result.class)
                            .phases();
            int heap = HEAP_MIB_MIN + (int) (settings.rows() * HEAP_BYTES_EACH >> 20);
            int quarter = Math.max(HEAP_MIB_MIN, heap / 4);
            List<Search> searches = new ArrayList<>();
            for (Jvm.Collector collector :
                    settings.isQuick()
                            ? List.of(Jvm.Collector.PARALLEL)
                            : List.of(Jvm.Collector.values())) {
                Jvm jvm = Jvm.of(collector).with(LocalSpark.FLAGS);
                for (Source source : Source.values()) {
                    searches.add(search(source, jvm.heap(heap)));
                }
                searches.add(search(Source.ALL_PMEM, jvm.heap(quarter)));
            }
            Repeated.all(settings, "kmeans", searches.stream().map(Search::repeated).toList());
            List<SourceRuns> runs = searches.stream().map(Search::runs).toList();
            return new KMeansMeasurements(
                    settings.rows(),
                    iterations,
                    stored.getLast().seconds(),
                    Scratch.bytes(Source.ALL_PMEM.inPmem(pmem)),
                    Scratch.bytes(Source.PMEM_TABLE.inPmem(pmem)),
                    new KMeansMeasurements.FileBytes(
                            Scratch.bytes(files.text()),
                            Scratch.bytes(files.binary()),
                            Scratch.bytes(files.parquet())),
                    runs);
        }

        private <R> R result(Job<R> job, Class<R> result) throws IOException, InterruptedException {
            try {
                return settings.processes()
                        .run(Jvm.of(Jvm.Collector.G1).with(LocalSpark.FLAGS), job, result)
                        .result();
            } catch (HeapExhaustedException e) {
                throw new IOException(
                        "this machine has too little memory for "
                                + settings.rows()
                                + " rows: try fewer with --rows",
                        e);
            }
        }

        /// A search for clusters, once in each round.
        private record Search(
                Source source, Jvm jvm, Repeated<Outcome<KMeansJob.Result>> repeated) {
            SourceRuns runs() {
                return new SourceRuns(source, jvm, repeated.results());
            }
        }

        private Search search(Source source, Jvm jvm) {
            return new Search(
                    source,
                    jvm,
                    new Repeated<>(source.title + ", " + jvm.title(), () -> once(source, jvm)));
        }

        private Outcome<KMeansJob.Result> once(Source source, Jvm jvm)
                throws IOException, InterruptedException, HeapExhaustedException {
            isCacheDropped &= settings.dropCaches();
            Outcome<KMeansJob.Result> outcome =
                    settings.processes()
                            .run(
                                    jvm,
                                    new KMeansJob(source, files, pmem, iterations),
                                    KMeansJob.Result.class);
            compare(source, outcome.result().clusters());
            return outcome;
        }

        /// @throws IllegalStateException if others have been found before
        private void compare(Source source, KMeans.Clusters clusters) {
            if (found != null && !clusters.isAbout(found, TOLERANCE)) {
                throw new IllegalStateException(
                        source.title + " has found other clusters than the sources before");
            }
            found = clusters;
        }
    }
}
