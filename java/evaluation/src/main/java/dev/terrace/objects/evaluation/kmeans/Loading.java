package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.run.HeapExhaustedException;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Phase;
import dev.terrace.objects.evaluation.run.Scratch;
import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/// How long it takes to have points of files on the heap, or in Spark's memory.
public final class Loading {
    private Loading() {}

    /// Seconds, by what is loaded from what. Files are on a disk, and nothing of them is in memory
    /// if the system can be told so.
    ///
    /// @throws IOException also if this machine has too little memory
    public static Map<String, Spread> seconds(Settings settings)
            throws IOException, InterruptedException {
        Jvm jvm = Jvm.of(Jvm.Collector.G1).with(LocalSpark.FLAGS);
        try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
            PointFiles files = new PointFiles(scratch.disk());
            settings.processes().run(jvm, new WriteJob(files, settings.rows()), Phase.class);
            settings.processes()
                    .run(
                            jvm,
                            new StoreJob(List.of(Source.PARQUET_CACHED), files, scratch.pmem()),
                            StoreJob.Result.class);
            Map<String, Spread> seconds = new LinkedHashMap<>();
            seconds.put(
                    "binary file to arrays on the heap", Spread.of(binary(settings, jvm, files)));
            seconds.put(
                    "Parquet to a cached DataFrame of Spark",
                    Spread.of(parquet(settings, jvm, files, scratch)));
            return seconds;
        } catch (HeapExhaustedException e) {
            throw new IOException(
                    "this machine has too little memory for "
                            + settings.rows()
                            + " rows: try fewer with --rows",
                    e);
        }
    }

    private static double[] binary(Settings settings, Jvm jvm, PointFiles files)
            throws IOException, InterruptedException, HeapExhaustedException {
        List<Double> seconds = new ArrayList<>();
        for (int run = 1; run <= settings.runs(); run++) {
            settings.progress().accept("reopen: loading a binary file, run " + run);
            settings.dropCaches();
            seconds.add(
                    settings.processes()
                            .run(jvm, new ReadJob(files), Phase.class)
                            .result()
                            .seconds());
        }
        return seconds.stream().mapToDouble(Double::doubleValue).toArray();
    }

    private static double[] parquet(Settings settings, Jvm jvm, PointFiles files, Scratch scratch)
            throws IOException, InterruptedException, HeapExhaustedException {
        List<Double> seconds = new ArrayList<>();
        for (int run = 1; run <= settings.runs(); run++) {
            settings.progress().accept("reopen: loading Parquet, run " + run);
            settings.dropCaches();
            seconds.add(
                    settings.processes()
                            .run(
                                    jvm,
                                    new KMeansJob(Source.PARQUET_CACHED, files, scratch.pmem(), 0),
                                    KMeansJob.Result.class)
                            .result()
                            .seconds(KMeans.LOAD));
        }
        return seconds.stream().mapToDouble(Double::doubleValue).toArray();
    }
}
