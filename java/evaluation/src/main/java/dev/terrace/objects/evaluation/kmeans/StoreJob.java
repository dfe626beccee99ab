package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import java.nio.file.Path;
import java.util.List;
import org.apache.spark.sql.SparkSession;

/// Stores points as some sources need them, each as a phase with its name.
record StoreJob(List<Source> sources, PointFiles files, Path pmem) implements Job<StoreJob.Result> {
    /// The result of the job.
    record Result(List<Phase> phases) {}

    @Override
    public Result run() throws Exception {
        Meter meter = new Meter();
        try (SparkSession session = LocalSpark.start(files.directory())) {
            for (Source source : sources) {
                meter.phase(
                        source.name(),
                        () -> {
                            source.store(session, files, pmem);
                            return source;
                        });
            }
        }
        return new Result(meter.phases());
    }
}
