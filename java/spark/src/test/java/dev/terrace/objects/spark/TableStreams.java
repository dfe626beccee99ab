package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.VoidFunction2;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/// A table with a column `id`, and streams that read it, each with a checkpoint of its own.
///
/// @param dir of the table and of the checkpoints
record TableStreams(SparkSession spark, Path dir) {
    TableStreams {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
    }

    String path() {
        return dir.resolve("table").toString();
    }

    /// The table's name in SQL, and in messages.
    String table() {
        return "terrace.`" + path() + "`";
    }

    /// Runs a statement that names the table TARGET.
    Dataset<Row> sql(String statement) {
        return spark.sql(statement.replace("TARGET", table()));
    }

    /// Appends ids from a number on, as many as parts: each part has one.
    void append(long from, int parts) {
        spark.range(from, from + parts, 1, parts)
                .toDF()
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .mode("append")
                .save(path());
    }

    ManifestLog log() throws IOException {
        return TerraceCatalog.log(path());
    }

    Manifest manifest() throws IOException {
        return log().require(Manifest.TABLE);
    }

    void vacuum() throws IOException {
        Snapshots.vacuum(
                JavaSparkContext.fromSparkContext(spark.sparkContext()),
                path(),
                Duration.ofSeconds(-1));
    }

    Dataset<Row> rows(Map<String, String> options) {
        return spark.readStream().format("terrace").options(options).load(path());
    }

    /// A stream of the table as Spark asks for it.
    TableStream stream(Map<String, String> options) {
        return (TableStream)
                TerraceCatalog.table(path())
                        .newScanBuilder(new CaseInsensitiveStringMap(options))
                        .build()
                        .toMicroBatchStream("");
    }

    DataStreamWriter<Row> writer(Dataset<Row> rows, String checkpoint) {
        return rows.writeStream()
                .option("checkpointLocation", dir.resolve(checkpoint).toString())
                .trigger(Trigger.AvailableNow());
    }

    /// What a test does in a batch.
    @FunctionalInterface
    interface Work {
        void of(Dataset<Row> rows) throws Exception;
    }

    /// Runs a query to its end, with this work in each batch.
    void run(Dataset<Row> rows, String checkpoint, Work work) throws Exception {
        VoidFunction2<Dataset<Row>, Long> batch = (batchRows, _) -> work.of(batchRows);
        writer(rows, checkpoint).foreachBatch(batch).start().awaitTermination();
    }

    /// The ids of each batch that has any, until all is read that is there.
    List<List<Long>> batches(String checkpoint, Map<String, String> options) throws Exception {
        List<List<Long>> batches = new ArrayList<>();
        run(rows(options), checkpoint, batch -> batches.add(ids(batch)));
        batches.removeIf(List::isEmpty);
        return batches;
    }

    List<List<Long>> batches() throws Exception {
        return batches("checkpoint", Map.of());
    }

    static List<Long> ids(Dataset<Row> rows) {
        return rows.select("id").as(Encoders.LONG()).collectAsList().stream().sorted().toList();
    }

    /// The message with which a query ends.
    String refused(String checkpoint, Map<String, String> options) {
        return assertThrows(StreamingQueryException.class, () -> batches(checkpoint, options))
                .getMessage();
    }

    String refused() {
        return refused("checkpoint", Map.of());
    }

    /// As if the driver had been killed before its checkpoint had said that a batch is done.
    void forgetCommit(String checkpoint, long batch) throws IOException {
        Path commits = dir.resolve(checkpoint).resolve("commits");
        Files.delete(commits.resolve("" + batch));
        Files.deleteIfExists(commits.resolve("." + batch + ".crc"));
    }

    /// The file with the offsets of a batch, which may be changed.
    Path offsets(String checkpoint, long batch) throws IOException {
        Path offsets = dir.resolve(checkpoint).resolve("offsets");
        Files.deleteIfExists(offsets.resolve("." + batch + ".crc"));
        return offsets.resolve("" + batch);
    }
}
