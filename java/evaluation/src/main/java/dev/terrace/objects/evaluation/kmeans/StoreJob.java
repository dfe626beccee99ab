package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;
import java.nio.file.Path;
import org.apache.spark.sql.SparkSession;

/// Stores points as a source needs them.
record StoreJob(Source source, PointFiles files, Path pmem) implements Job<Phase> {
    @Override
    public Phase run() throws Exception {
        Meter meter = new Meter();
        try (SparkSession session = LocalSpark.start(files.directory())) {
            meter.phase("store", () -> {
                source.store(session, files, pmem);
                return source;
            });
        }
        return meter.phases().getFirst();
    }
}
