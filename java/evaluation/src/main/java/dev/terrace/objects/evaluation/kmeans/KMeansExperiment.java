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
import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// k-means on Spark: figure 4 and table 1 of the paper.
public final class KMeansExperiment implements Experiment {
    private static final int ITERATIONS = 10;
    private static final int ITERATIONS_QUICK = 2;

    /// Of the three numbers: enough for a median of compiled code.
    private static final int MORE_ITERATIONS = 50;

    private static final int MORE_ITERATIONS_QUICK = 3;

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
        private final int moreIterations;
        private boolean isCacheDropped = true;

        /// The results, by number of iterations.
        private final Map<Integer, KMeans.Clusters> found = new HashMap<>();

        Measuring(Settings settings, PointFiles files, Path pmem) {
            this.settings = settings;
            this.files = files;
            this.pmem = pmem;
            iterations = settings.isQuick() ? ITERATIONS_QUICK : ITERATIONS;
            moreIterations = settings.isQuick() ? MORE_ITERATIONS_QUICK : MORE_ITERATIONS;
        }

        KMeansMeasurements all() throws IOException, InterruptedException {
            prepare();
            int heap = HEAP_MIB_MIN + (int) (settings.rows() * HEAP_BYTES_EACH >> 20);
            int quarter = Math.max(HEAP_MIB_MIN, heap / 4);
            Jvm g1 = Jvm.of(Jvm.Collector.G1).with(LocalSpark.FLAGS);
            // Each round makes them anew, before they are read.
            Repeated<Double> toBinary = importing(Source.BINARY_CACHED, g1.heap(heap));
            Repeated<Double> toPools = importing(Source.ALL_PMEM, g1.heap(quarter));
            List<Search> searches = new ArrayList<>();
            for (Jvm.Collector collector :
                    settings.isQuick()
                            ? List.of(Jvm.Collector.PARALLEL)
                            : List.of(Jvm.Collector.values())) {
                Jvm jvm = Jvm.of(collector).with(LocalSpark.FLAGS);
                for (Source source : Source.values()) {
                    searches.add(search(source, jvm.heap(heap), iterations));
                }
                searches.add(search(Source.ALL_PMEM, jvm.heap(quarter), iterations));
            }
            List<Search> three =
                    List.of(
                            search(Source.TEXT_CACHED, g1.heap(heap), moreIterations),
                            search(Source.BINARY_CACHED, g1.heap(heap), moreIterations),
                            search(Source.ALL_PMEM, g1.heap(quarter), moreIterations));
            List<Repeated<?>> round = new ArrayList<>(List.of(toBinary, toPools));
            searches.forEach(search -> round.add(search.repeated()));
            three.forEach(search -> round.add(search.repeated()));
            Repeated.all(settings, "kmeans", round);
            long poolBytes = Scratch.bytes(Source.ALL_PMEM.directory(files, pmem));
            return new KMeansMeasurements(
                    settings.rows(),
                    iterations,
                    poolBytes,
                    Scratch.bytes(Source.PMEM_TABLE.directory(files, pmem)),
                    new KMeansMeasurements.FileBytes(
                            Scratch.bytes(files.text()),
                            Scratch.bytes(files.binary()),
                            Scratch.bytes(files.parquet())),
                    searches.stream().map(Search::runs).toList(),
                    new ThreeNumbers(
                            moreIterations,
                            new Spread(toPools.results()),
                            new Spread(toBinary.results()),
                            poolBytes,
                            three.stream().map(Search::runs).toList()));
        }

        private void prepare() throws IOException, InterruptedException {
            Jvm jvm = Jvm.of(Jvm.Collector.G1).with(LocalSpark.FLAGS);
            settings.progress().accept("kmeans: writing " + settings.rows() + " points");
            result(jvm, new WriteJob(files, settings.rows()), Phase.class);
            settings.progress().accept("kmeans: storing them as Parquet and as a table");
            List<Source> once = List.of(Source.PARQUET_CACHED, Source.PMEM_TABLE);
            result(jvm, new StoreJob(once, files, pmem), StoreJob.Result.class);
        }

        /// Seconds to make what a source reads of the text, in place of what the round before has
        /// made.
        private Repeated<Double> importing(Source source, Jvm jvm) {
            return new Repeated<>(
                    "import for " + source.title,
                    () -> {
                        Scratch.delete(source.directory(files, pmem));
                        isCacheDropped &= settings.dropCaches();
                        StoreJob job = new StoreJob(List.of(source), files, pmem);
                        return result(jvm, job, StoreJob.Result.class).phases().getLast().seconds();
                    });
        }

        private <R> R result(Jvm jvm, Job<R> job, Class<R> result)
                throws IOException, InterruptedException {
            try {
                return settings.processes().run(jvm, job, result).result();
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

        private Search search(Source source, Jvm jvm, int steps) {
            return new Search(
                    source,
                    jvm,
                    new Repeated<>(
                            source.title + ", " + steps + " iterations, " + jvm.title(),
                            () -> once(source, jvm, steps)));
        }

        private Outcome<KMeansJob.Result> once(Source source, Jvm jvm, int steps)
                throws IOException, InterruptedException, HeapExhaustedException {
            isCacheDropped &= settings.dropCaches();
            KMeansJob job = new KMeansJob(source, files, pmem, steps);
            Outcome<KMeansJob.Result> outcome =
                    settings.processes().run(jvm, job, KMeansJob.Result.class);
            compare(source, steps, outcome.result().clusters());
            return outcome;
        }

        /// @throws IllegalStateException if others have been found before
        private void compare(Source source, int steps, KMeans.Clusters clusters) {
            KMeans.Clusters before = found.putIfAbsent(steps, clusters);
            if (before != null && !clusters.isAbout(before, TOLERANCE)) {
                throw new IllegalStateException(
                        source.title + " has found other clusters than the sources before");
            }
        }
    }
}
