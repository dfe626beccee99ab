package dev.terrace.objects.evaluation.queries;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.evaluation.spark.Answer;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.storage.RDDInfo;

/// Runs each query several times on tables that are kept in one way.
///
/// @param directory of all tables
/// @param disk where Spark may put what it needs no longer than it runs
/// @param warmUps passes over all queries before the first that counts
/// @param runs passes that count
record QueriesJob(Storage storage, Path directory, Path disk, int warmUps, int runs)
        implements Job<QueriesJob.Result> {
    private static final double NANOS = 1e9;

    /// The result of the job.
    ///
    /// @param seconds the median of each query's runs
    /// @param answers of each query's last run
    /// @param cachedBytes what Spark's cache takes of the heap
    record Result(Map<Query, Double> seconds, Map<Query, Answer> answers, long cachedBytes) {}

    @Override
    public Result run() throws Exception {
        try (SparkSession session = LocalSpark.start(disk)) {
            open(session);
            Map<Query, Answer> answers = new EnumMap<>(Query.class);
            Map<Query, List<Double>> times = new EnumMap<>(Query.class);
            for (int pass = 0; pass < warmUps + runs; pass++) {
                for (Query query : Query.values()) {
                    long start = System.nanoTime();
                    answers.put(query, Answer.of(session.sql(query.sql).collectAsList()));
                    if (pass >= warmUps) {
                        times.computeIfAbsent(query, _ -> new ArrayList<>())
                                .add((System.nanoTime() - start) / NANOS);
                    }
                }
            }
            Map<Query, Double> medians = new EnumMap<>(Query.class);
            times.forEach((query, all) -> medians.put(query, new Spread(all).median()));
            return new Result(medians, answers, cachedBytes(session));
        }
    }

    /// Gives all tables the names that queries know them by.
    void open(SparkSession session) {
        for (WarehouseTable table : WarehouseTable.values()) {
            storage.read(session, storage.path(directory, table))
                    .createOrReplaceTempView(table.title());
        }
    }

    private static long cachedBytes(SparkSession session) {
        return Arrays.stream(session.sparkContext().getRDDStorageInfo())
                .mapToLong(RDDInfo::memSize)
                .sum();
    }
}
