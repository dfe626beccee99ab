package dev.terrace.objects.evaluation.queries;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Scratch;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import java.nio.file.Path;
import java.util.EnumMap;
import java.util.Map;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;

/// Makes all tables, for each way to keep them.
///
/// @param directory of the tables
/// @param disk where Spark may put what it needs no longer than it runs
record GenerateJob(double scale, Path directory, Path disk) implements Job<GenerateJob.Result> {
    /// The result of the job.
    ///
    /// @param bytes of files
    record Result(Map<Storage, Long> bytes) {}

    @Override
    public Result run() throws Exception {
        Map<Storage, Long> bytes = new EnumMap<>(Storage.class);
        try (SparkSession session = LocalSpark.start(disk)) {
            for (Storage storage : Storage.values()) {
                for (WarehouseTable table : WarehouseTable.values()) {
                    Dataset<Row> rows = table.generate(session, new Scale(scale));
                    storage.write(rows, storage.path(directory, table));
                }
                bytes.put(storage, Scratch.bytes(storage.directory(directory)));
            }
        }
        return new Result(bytes);
    }
}
