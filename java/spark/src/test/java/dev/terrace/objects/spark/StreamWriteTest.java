package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.Trigger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/// Streaming queries that write to tables; each run takes the files that are new.
@ExtendWith(LocalSpark.class)
class StreamWriteTest {
    @TempDir private Path dir;

    private final SparkSession spark;

    StreamWriteTest(SparkSession spark) {
        this.spark = spark;
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
    }

    private String path() {
        return dir.resolve("table").toString();
    }

    private String table() {
        return "terrace.`" + path() + "`";
    }

    private void arrive(long id) throws IOException {
        Files.createDirectories(dir.resolve("in"));
        Files.writeString(dir.resolve("in").resolve(id + ".json"), "{\"id\":" + id + "}\n");
    }

    private Dataset<Row> arrived() {
        return spark.readStream().schema("id LONG").json(dir.resolve("in").toString());
    }

    private DataStreamWriter<Row> writer(Dataset<Row> rows, String checkpoint) {
        return rows.writeStream()
                .format("terrace")
                .option("checkpointLocation", dir.resolve(checkpoint).toString())
                .trigger(Trigger.AvailableNow());
    }

    private void append(String checkpoint) throws Exception {
        writer(arrived(), checkpoint).start(path()).awaitTermination();
    }

    private String refused(DataStreamWriter<Row> writer) {
        return assertThrows(
                        StreamingQueryException.class,
                        () -> writer.start(path()).awaitTermination())
                .getMessage();
    }

    /// As if the driver had been killed between the last commit of a table and the checkpoint's.
    private void forgetLastCommit(String checkpoint, long epoch) throws IOException {
        Path commits = dir.resolve(checkpoint).resolve("commits");
        Files.delete(commits.resolve("" + epoch));
        Files.deleteIfExists(commits.resolve("." + epoch + ".crc"));
    }

    private String ids() {
        return spark.sql("SELECT id FROM " + table() + " ORDER BY id").collectAsList().toString();
    }

    private List<String> names(String directory) throws IOException {
        try (var files = Files.list(dir.resolve("table").resolve(directory))) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }

    private Manifest manifest() throws IOException {
        return TerraceCatalog.log(path()).require(Manifest.TABLE);
    }

    @Test
    void anEpochThatRunsAgainIsThereOnce() throws Exception {
        arrive(1);
        append("checkpoint");
        arrive(2);
        append("checkpoint");
        assertEquals("[[1], [2]]", ids());
        List<String> parts = names("parts");
        for (int i = 0; i < 2; i++) {
            forgetLastCommit("checkpoint", 1);
            append("checkpoint");
            assertEquals("[[1], [2]]", ids());
            assertEquals(parts, names("parts"));
            assertEquals(List.of(), names("jobs"));
            assertEquals(2, manifest().number());
        }
        arrive(3);
        append("checkpoint");
        assertEquals("[[1], [2], [3]]", ids());
    }

    @Test
    void whateverIsCommittedMeanwhileKeepsTheEpochs() throws Exception {
        arrive(1);
        append("checkpoint");
        Map<String, Long> epochs = manifest().streams();
        assertEquals(List.of(0L), List.copyOf(epochs.values()));
        for (String statement :
                List.of(
                        "INSERT INTO TABLE VALUES (10), (11)",
                        "UPDATE TABLE SET id = 12 WHERE id = 11",
                        "DELETE FROM TABLE WHERE id = 10",
                        "MERGE INTO TABLE t USING (SELECT 12L id) s ON t.id = s.id"
                                + " WHEN MATCHED THEN UPDATE SET id = 13",
                        "TRUNCATE TABLE TABLE",
                        "INSERT OVERWRITE TABLE VALUES (14)",
                        "CREATE OR REPLACE TABLE TABLE AS SELECT 15L id")) {
            spark.sql(statement.replaceFirst("TABLE(?= VALUES| SET| WHERE| t | AS|$)", table()));
            assertEquals(epochs, manifest().streams(), statement);
        }
        forgetLastCommit("checkpoint", 0);
        append("checkpoint");
        assertEquals("[[15]]", ids());
    }

    @Test
    void twoQueriesToOneTableHaveEpochsOfTheirOwn() throws Exception {
        arrive(1);
        append("first");
        append("second");
        assertEquals("[[1], [1]]", ids());
        assertEquals(2, manifest().streams().size());
        forgetLastCommit("first", 0);
        append("first");
        assertEquals("[[1], [1]]", ids());
    }

    @Test
    void inCompleteModeTheResultIsAllOfTheTable() throws Exception {
        arrive(1);
        Dataset<Row> counts = arrived().groupBy().count();
        for (int i = 1; i <= 3; i++) {
            arrive(i);
            writer(counts, "checkpoint").outputMode("complete").start(path()).awaitTermination();
            assertEquals(
                    "[[" + i + "]]",
                    spark.sql("SELECT * FROM " + table()).collectAsList().toString());
        }
        String update = refused(writer(counts, "other").outputMode("update"));
        assertTrue(update.contains("does not support Update mode"), update);
    }

    @Test
    void aStreamMakesTheTableWithItsOptions() throws Exception {
        arrive(1);
        writer(arrived(), "checkpoint").option("tier.id", "DISK").start(path()).awaitTermination();
        assertEquals(Map.of("tier.id", "DISK"), manifest().options());
        spark.sql("DROP TABLE " + table());
        writer(arrived(), "named").toTable(table()).awaitTermination();
        assertEquals("[[1]]", ids());
    }

    @Test
    void wrongColumnsAndOptionsAreRefusedWithARemedy() throws Exception {
        arrive(1);
        append("checkpoint");
        String columns = refused(writer(arrived().selectExpr("id other"), "other"));
        assertTrue(columns.contains("other:bigint") && columns.contains("select the"), columns);
        String type = refused(writer(arrived().selectExpr("int(id) id"), "another"));
        assertTrue(type.contains("id:int") && type.contains("id:bigint"), type);
        String option =
                assertThrows(
                                IllegalArgumentException.class,
                                () -> writer(arrived(), "more").option("tear", 1).start(path()))
                        .getMessage();
        assertTrue(option.contains("there is no option tear"), option);
        assertEquals("[[1]]", ids());
    }

    @Test
    void anEpochIsKnownAfterAnOptimizationAndAVacuum() throws Exception {
        for (int id = 1; id <= 3; id++) {
            arrive(id);
            append("checkpoint");
        }
        spark.sql("DELETE FROM " + table() + " WHERE id = 1");
        Map<String, Long> epochs = manifest().streams();
        assertTrue(Optimization.defaults().run(spark, path()).partsBefore() > 0);
        Snapshots.vacuum(
                JavaSparkContext.fromSparkContext(spark.sparkContext()),
                path(),
                Duration.ofSeconds(-1));
        assertEquals(epochs, manifest().streams());
        assertEquals(1, names("parts").size());
        forgetLastCommit("checkpoint", 2);
        append("checkpoint");
        assertEquals("[[2], [3]]", ids());
        assertEquals(1, names("parts").size());
    }

    @Test
    void anEpochWithoutRowsIsNotMissed() throws Exception {
        arrive(1);
        append("checkpoint");
        for (int i = 0; i < 2; i++) {
            arrive(2);
            writer(arrived().filter("id <> 2"), "checkpoint").start(path()).awaitTermination();
            assertEquals(1, manifest().number());
            forgetLastCommit("checkpoint", 1);
        }
        arrive(3);
        for (int i = 0; i < 2; i++) {
            // The first run has epoch 1 again, and then epoch 2.
            writer(arrived().filter("id <> 2"), "checkpoint").start(path()).awaitTermination();
            assertEquals("[[1], [3]]", ids());
            assertEquals(List.of(2L), List.copyOf(manifest().streams().values()));
            forgetLastCommit("checkpoint", 2);
        }
    }

    @Test
    void appendsMeanwhileAndManyEpochsOfOneRunAreAllThere() throws Exception {
        spark.sql("CREATE TABLE " + table() + " (id BIGINT)");
        for (int id = 0; id < 6; id++) {
            arrive(id);
        }
        Dataset<Row> rows =
                spark.readStream()
                        .schema("id LONG")
                        .option("maxFilesPerTrigger", 1)
                        .json(dir.resolve("in").toString());
        StreamingQuery query = writer(rows, "checkpoint").start(path());
        for (int id = 6; id < 12; id++) {
            spark.sql("INSERT INTO " + table() + " VALUES (" + id + ")");
        }
        query.awaitTermination();
        assertEquals(
                List.of(0L, 1L, 2L, 3L, 4L, 5L, 6L, 7L, 8L, 9L, 10L, 11L),
                spark.table(table()).as(Encoders.LONG()).collectAsList().stream()
                        .sorted()
                        .toList());
        assertEquals(List.of(5L), List.copyOf(manifest().streams().values()));
    }

    @Test
    void anEpochThatRunsAgainInCompleteModeReplacesNothing() throws Exception {
        arrive(1);
        Dataset<Row> counts = arrived().groupBy().count().selectExpr("`count` id");
        for (int i = 0; i < 2; i++) {
            writer(counts, "checkpoint").outputMode("complete").start(path()).awaitTermination();
            if (i == 0) {
                spark.sql("INSERT INTO " + table() + " VALUES (7)");
                forgetLastCommit("checkpoint", 0);
            }
        }
        assertEquals("[[1], [7]]", ids());
    }

    @Test
    void aRunningStreamWritesToTheTableAsItIsNow() throws Exception {
        arrive(1);
        append("checkpoint");
        StreamingQuery query =
                writer(arrived(), "checkpoint").trigger(Trigger.ProcessingTime(0)).start(path());
        try {
            arrive(2);
            query.processAllAvailable();
            spark.sql("DROP TABLE " + table());
            arrive(3);
            query.processAllAvailable();
            assertEquals("[[3]]", ids());
            String pmem = dir.resolve("pmem").toString();
            spark.sql(
                    "CREATE OR REPLACE TABLE "
                            + table()
                            + " TBLPROPERTIES ('pmem'='"
                            + pmem
                            + "') AS SELECT 10L id");
            arrive(4);
            query.processAllAvailable();
            assertEquals("[[4], [10]]", ids());
            spark.sql("CREATE OR REPLACE TABLE " + table() + " AS SELECT 'a' name");
            arrive(5);
            String refused =
                    assertThrows(StreamingQueryException.class, query::processAllAvailable)
                            .getMessage();
            assertTrue(refused.contains("name:string"), refused);
        } finally {
            query.stop();
        }
    }

    @Test
    void commentsOfColumnsMayDifferAndNamesMayNot() throws Exception {
        spark.sql("CREATE TABLE " + table() + " (id BIGINT COMMENT 'of a person')");
        arrive(1);
        append("checkpoint");
        assertEquals("[[1]]", ids());
        assertTrue(manifest().type().contains("of a person"));
        String upper = refused(writer(arrived().selectExpr("id ID"), "upper"));
        assertTrue(upper.contains("ID:bigint") && upper.contains("select the"), upper);
    }

    @Test
    void optionsOfStreamsAreRefusedInBatches() throws Exception {
        arrive(1);
        append("checkpoint");
        Dataset<Row> rows = spark.range(1).toDF();
        String option = "checkpointLocation";
        List<Executable> batches =
                List.of(
                        () -> spark.read().format("terrace").option(option, "x").load(path()),
                        () -> spark.read().option(option, "x").table(table()).collectAsList(),
                        () ->
                                rows.write()
                                        .format("terrace")
                                        .mode("append")
                                        .option(option, "x")
                                        .save(path()),
                        () -> rows.writeTo(table()).option("queryName", "x").append(),
                        () -> rows.writeTo(table()).option(option, "x").append());
        for (Executable batch : batches) {
            String refused = assertThrows(IllegalArgumentException.class, batch).getMessage();
            assertTrue(refused.contains("is one of streams only: leave it out"), refused);
        }
        assertEquals("[[1]]", ids());
    }

    @Test
    void continuousQueriesAndDirectoriesOfObjectsAreRefused() throws Exception {
        Dataset<Row> rate = spark.readStream().format("rate").load().selectExpr("value id");
        String continuous =
                refused(writer(rate, "continuous").trigger(Trigger.Continuous("1 second")));
        assertTrue(continuous.contains("use ProcessingTime or AvailableNow"), continuous);
        assertTrue(
                TerraceCatalog.log(path())
                        .commit(new Manifest(1, Manifest.OBJECTS, "X", Map.of(), List.of())));
        String objects =
                assertThrows(
                                IllegalArgumentException.class,
                                () -> writer(rate, "objects").start(path()))
                        .getMessage();
        assertTrue(objects.contains("holds durable objects"), objects);
    }

    @Test
    void aRemoteDirectoryTakesStreamsToo() throws Exception {
        arrive(1);
        String remote = "remote:" + path();
        for (int i = 0; i < 2; i++) {
            writer(arrived(), "checkpoint")
                    .option("pmem", dir.resolve("copies").toString())
                    .start(remote)
                    .awaitTermination();
            assertEquals(
                    1,
                    spark.read()
                            .format("terrace")
                            .option("pmem", dir.resolve("copies").toString())
                            .load(remote)
                            .count());
            forgetLastCommit("checkpoint", 0);
        }
    }
}
