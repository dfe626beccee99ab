package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.run.GcPauses;
import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;
import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import java.nio.file.Path;
import java.util.List;
import org.apache.spark.sql.SparkSession;

/// Finds clusters once.
record KMeansJob(Source source, PointFiles files, Path pmem, int iterations)
        implements Job<KMeansJob.Result> {
    /// The result of the job.
    ///
    /// @param phases the algorithm's steps, in the order in which they were taken
    /// @param gc of the whole process, with the start of Spark
    /// @param clusters what was found
    record Result(List<Phase> phases, GcPauses gc, KMeans.Clusters clusters) {
        /// How long all steps with this name took, in seconds.
        double seconds(String name) {
            return phases.stream()
                    .filter(phase -> phase.name().equals(name))
                    .mapToDouble(Phase::seconds)
                    .sum();
        }

        /// How long all steps took, in seconds.
        double seconds() {
            return phases.stream().mapToDouble(Phase::seconds).sum();
        }

        /// The median of all iterations but the first, in seconds: those after compilation and
        /// caching.
        double laterIteration() {
            return Spread.of(
                            phases.stream()
                                    .filter(phase -> phase.name().equals(KMeans.ITERATION))
                                    .skip(1)
                                    .mapToDouble(Phase::seconds)
                                    .toArray())
                    .median();
        }

        /// The processor time of all steps, in seconds.
        double cpuSeconds() {
            return phases.stream().mapToDouble(Phase::cpuSeconds).sum();
        }
    }

    @Override
    public Result run() throws Exception {
        Meter meter = new Meter();
        try (SparkSession session = LocalSpark.start(files.directory())) {
            KMeans.Clusters clusters =
                    new KMeans(source.open(session, files, pmem), meter).run(iterations);
            return new Result(meter.phases(), GcPauses.now(), clusters);
        }
    }
}
