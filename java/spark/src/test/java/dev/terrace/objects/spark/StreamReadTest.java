package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.streaming.DataStreamReader;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/// Streams that read tables: which rows they give, in which batches, and by which options.
@ExtendWith(LocalSpark.class)
class StreamReadTest {
    private static final Map<String, String> NONE = Map.of();

    @TempDir private Path dir;

    private final SparkSession spark;
    private TableStreams streams;

    StreamReadTest(SparkSession spark) {
        this.spark = spark;
        streams = new TableStreams(spark, Path.of(""));
    }

    @BeforeEach
    void nameTable() {
        streams = new TableStreams(spark, dir);
    }

    @Test
    void theRowsOfTheTableComeFirstAndThenWhatIsAdded() throws Exception {
        streams.append(0, 4);
        streams.sql("DELETE FROM TARGET WHERE id + 0 = 1");
        assertEquals(List.of(List.of(0L, 2L, 3L)), streams.batches());
        assertEquals(List.of(), streams.batches());
        streams.append(10, 2);
        streams.sql("INSERT INTO TARGET VALUES (20)");
        assertEquals(List.of(List.of(10L, 11L, 20L)), streams.batches());
        assertEquals(List.of(), streams.batches());
    }

    /// Blocks and parts have some rows that are deleted and some that are not.
    @Test
    void deletedRowsAreNotAmongTheFirst() throws Exception {
        spark.range(0, 1000, 1, 3)
                .write()
                .format("terrace")
                .option("block.rows", 50)
                .save(streams.path());
        streams.sql("DELETE FROM TARGET WHERE id % 7 = 3 OR id BETWEEN 100 AND 180");
        List<Long> there = TableStreams.ids(streams.sql("SELECT * FROM TARGET"));
        assertEquals(List.of(there), streams.batches());
    }

    @Test
    void aBatchTakesAsManyPartsAsItMay() throws Exception {
        streams.append(0, 5);
        streams.append(5, 1);
        streams.append(6, 1);
        List<List<Long>> twos =
                List.of(List.of(0L, 1L), List.of(2L, 3L), List.of(4L, 5L), List.of(6L));
        Map<String, String> two = Map.of("maxFilesPerTrigger", "2");
        assertEquals(twos, streams.batches("first", two));
        assertEquals(
                twos, streams.batches("second", and(two, "startingVersion", "1")), "each commit");
        assertEquals(1, streams.batches("third", NONE).size());
        assertEquals(
                1, streams.batches("fourth", Map.of("maxFilesPerTrigger", "2147483647")).size());
    }

    private static Map<String, String> and(Map<String, String> some, String name, String value) {
        Map<String, String> all = new HashMap<>(some);
        all.put(name, value);
        return all;
    }

    @Test
    void aBatchTakesAsManyBytesAsItMayAndOnePartAtLeast() throws Exception {
        streams.append(0, 4);
        List<Part> parts = streams.manifest().parts();
        long two = parts.get(0).bytes() + parts.get(1).bytes();
        assertEquals(4, streams.batches("one", Map.of("maxBytesPerTrigger", "1")).size());
        assertEquals(
                List.of(List.of(0L, 1L), List.of(2L, 3L)),
                streams.batches("two", Map.of("maxBytesPerTrigger", "" + two)));
        assertEquals(
                4, streams.batches("less", Map.of("maxBytesPerTrigger", "" + (two - 1))).size());
    }

    @Test
    void aBatchThatHasTwoLimitsKeepsBoth() throws Exception {
        streams.append(0, 4);
        Map<String, String> bytes = Map.of("maxBytesPerTrigger", "1");
        assertEquals(4, streams.batches("bytes", and(bytes, "maxFilesPerTrigger", "3")).size());
        Map<String, String> files = Map.of("maxBytesPerTrigger", "" + Long.MAX_VALUE);
        assertEquals(
                List.of(List.of(0L, 1L, 2L), List.of(3L)),
                streams.batches("files", and(files, "maxFilesPerTrigger", "3")));
        assertThrows(IllegalArgumentException.class, () -> new Admission(ReadLimit.maxRows(1)));
    }

    @Test
    void aQueryOfWhatIsAvailableNowEndsThere() throws Exception {
        streams.append(0, 3);
        Map<String, String> one = Map.of("maxFilesPerTrigger", "1");
        List<List<Long>> batches = new ArrayList<>();
        streams.run(
                streams.rows(one),
                "checkpoint",
                batch -> {
                    batches.add(TableStreams.ids(batch));
                    streams.append(10L * batches.size(), 1);
                });
        assertEquals(List.of(List.of(0L), List.of(1L), List.of(2L)), batches);
        batches.clear();
        streams.run(
                streams.rows(one),
                "checkpoint",
                batch -> {
                    batches.add(TableStreams.ids(batch));
                    streams.append(100, 1);
                });
        assertEquals(List.of(List.of(10L), List.of(20L), List.of(30L)), batches);
    }

    /// Others may append between the start of a query and its first look at the table.
    @Test
    void theFirstRowsAreThoseOfTheStartOfAQueryOfWhatIsAvailableNow() {
        streams.append(0, 1);
        TableStream stream = streams.stream(NONE);
        stream.prepareForTriggerAvailableNow();
        streams.append(1, 1);
        TableOffset end = stream.latestOffset(stream.initialOffset(), ReadLimit.allAvailable());
        assertEquals(1, end.commit());
        assertEquals(1, stream.planInputPartitions(stream.initialOffset(), end).length);
        assertEquals(end, stream.latestOffset(end, ReadLimit.allAvailable()));
        assertEquals(2, streams.stream(NONE).latestOffset().commit());
        TableStream latest = streams.stream(Map.of("startingVersion", "LATEST"));
        latest.prepareForTriggerAvailableNow();
        assertEquals(2, latest.latestOffset().commit());
    }

    @Test
    void aStreamBeginsAtTheCommitThatIsAskedFor() throws Exception {
        streams.append(1, 1);
        streams.append(2, 1);
        streams.append(3, 1);
        assertEquals(
                List.of(List.of(1L, 2L, 3L)),
                streams.batches("first", Map.of("startingVersion", "1")));
        assertEquals(
                List.of(List.of(2L, 3L)),
                streams.batches("second", Map.of("startingVersion", "2")));
        for (String start : List.of("latest", "4")) {
            assertEquals(List.of(), streams.batches("next" + start, options(start)));
        }
        String late = streams.refused("late", options("5"));
        assertTrue(late.contains("is 3, so the next one is 4, not 5"), late);
        streams.append(4, 1);
        for (String start : List.of("latest", "4")) {
            assertEquals(
                    List.of(List.of(4L)),
                    streams.batches("next" + start, options("1")),
                    "the start" + " is the checkpoint's");
        }
        streams.sql("DELETE FROM TARGET WHERE id = 1");
        assertEquals(List.of(List.of(2L, 3L, 4L)), streams.batches("rows", NONE));
        String change = streams.refused("change", options("5"));
        assertTrue(change.contains("commit 5"), change);
    }

    private static Map<String, String> options(String start) {
        return Map.of("startingVersion", start);
    }

    @Test
    void aTableWithoutRowsIsReadWhenItHasSome() throws Exception {
        String none = assertThrows(AnalysisException.class, () -> streams.rows(NONE)).getMessage();
        assertTrue(none.contains("cannot be found"), none);
        assertThrows(
                AnalysisException.class, () -> spark.readStream().table(streams.table()).schema());
        streams.sql("CREATE TABLE TARGET (id BIGINT)");
        assertEquals(List.of(), streams.batches());
        assertEquals(List.of(), streams.batches());
        assertEquals(1, streams.stream(NONE).latestOffset().commit());
        streams.append(7, 1);
        assertEquals(List.of(List.of(7L)), streams.batches());
        assertEquals(List.of(List.of(7L)), streams.batches("all", Map.of("startingVersion", "1")));
    }

    @Test
    void aTableIsFoundByItsNameAndByACatalogsEntry() throws Exception {
        streams.append(0, 2);
        spark.sql("CREATE TABLE streamed USING terrace LOCATION '" + streams.path() + "'");
        try {
            for (String name : List.of(streams.table(), "streamed")) {
                List<List<Long>> batches = new ArrayList<>();
                streams.run(
                        spark.readStream().option("maxFilesPerTrigger", "1").table(name),
                        name.replaceAll("\\W", ""),
                        batch -> batches.add(TableStreams.ids(batch)));
                assertEquals(List.of(List.of(0L), List.of(1L)), batches);
            }
        } finally {
            spark.sql("DROP TABLE streamed");
        }
    }

    @Test
    void valuesOfAllTypesAreThoseOfABatch() throws Exception {
        for (long seed = 1; seed <= 3; seed++) {
            Random random = new Random(seed);
            spark.conf().set("spark.sql.codegen.wholeStage", seed == 1);
            String path = dir.resolve("random" + seed).toString();
            new RandomTable(random)
                    .rows(spark)
                    .write()
                    .format("terrace")
                    .option("block.rows", 1 + random.nextInt(50))
                    .save(path);
            spark.sql("DELETE FROM terrace.`" + path + "` WHERE c0 > 5");
            List<String> rows = new ArrayList<>();
            streams.run(
                    spark.readStream()
                            .format("terrace")
                            .option("split.bytes", 1 + random.nextInt(4000))
                            .load(path),
                    "checkpoint" + seed,
                    batch -> rows.addAll(ParquetEqualityTest.sorted(batch)));
            spark.conf().unset("spark.sql.codegen.wholeStage");
            assertEquals(
                    ParquetEqualityTest.sorted(spark.read().format("terrace").load(path)), rows);
        }
    }

    @Test
    void rowsSayWhereTheyAre() throws Exception {
        spark.range(0, 100, 1, 3).write().format("terrace").save(streams.path());
        streams.sql("DELETE FROM TARGET WHERE id % 3 = 1");
        List<String> expected =
                ParquetEqualityTest.sorted(streams.sql("SELECT id, _row FROM TARGET"));
        for (boolean isCompiled : List.of(true, false)) {
            spark.conf().set("spark.sql.codegen.wholeStage", isCompiled);
            List<String> rows = new ArrayList<>();
            streams.run(
                    streams.rows(NONE).select("id", "_row"),
                    "checkpoint" + isCompiled,
                    batch -> rows.addAll(ParquetEqualityTest.sorted(batch)));
            spark.conf().unset("spark.sql.codegen.wholeStage");
            assertEquals(expected, rows);
        }
    }

    @Test
    void aRemoteTableIsReadWithCopiesWhereTheOptionsSay() throws Exception {
        streams.append(0, 2);
        String remote = "remote:" + streams.path();
        String copies = dir.resolve("copies").toString();
        DataStreamReader reader = spark.readStream().option("pmem", copies);
        for (Dataset<Row> rows :
                List.of(
                        reader.format("terrace").load(remote),
                        spark.readStream()
                                .option("pmem", copies)
                                .table("terrace.`" + remote + "`"))) {
            List<Long> ids = new ArrayList<>();
            streams.run(
                    rows,
                    "checkpoint" + rows.hashCode(),
                    batch -> ids.addAll(TableStreams.ids(batch)));
            assertEquals(List.of(0L, 1L), ids);
        }
        try (var files = Files.list(Path.of(copies))) {
            assertTrue(files.count() >= 2);
        }
    }

    private void refusedOption(String expected, Executable query) {
        Exception refused = assertThrows(Exception.class, query::execute);
        assertTrue(refused.getMessage().contains(expected), refused::getMessage);
    }

    @Test
    void wrongOptionsAreRefusedWithARemedy() {
        streams.append(0, 1);
        for (List<String> option :
                List.of(
                        List.of("maxFilesPerTrigger", "0", "'0' is no number from 1 to 2147483647"),
                        List.of("maxFilesPerTrigger", "many", "'many' is no number"),
                        List.of("maxFilesPerTrigger", "2147483648", "is no number from 1 to"),
                        List.of("maxBytesPerTrigger", "-1", "option maxBytesPerTrigger: '-1'"),
                        List.of("startingVersion", "0", "and not latest"),
                        List.of("startingVersion", "first", "'first' is no number"),
                        List.of("skipChangeCommits", "yes", "is neither true nor false"),
                        List.of("maxFilePerTrigger", "1", "nearest first: maxFilesPerTrigger"),
                        List.of("checkpointLocation", "x", "streams only: leave it out"),
                        List.of("versionAsOf", "1", "at the option startingVersion"),
                        List.of("timestampAsOf", "2030-01-01", "at the option startingVersion"))) {
            Map<String, String> options = Map.of(option.get(0), option.get(1));
            refusedOption(option.get(2), () -> streams.batches("of" + option.get(0), options));
            refusedOption(
                    option.get(0).contains("AsOf") ? "" : option.get(2),
                    () ->
                            streams.run(
                                    spark.readStream().options(options).table(streams.table()),
                                    "named" + option.get(0),
                                    Dataset::count));
        }
        refusedOption(
                "schema",
                () -> spark.readStream().schema("id INT").format("terrace").load(dir + ""));
    }

    @Test
    void optionsOfStreamsThatReadAreOfThoseOnly() {
        streams.append(0, 1);
        String only = "is one of streams that read a table only: leave it out";
        for (String option : StreamOptions.NAMES) {
            refusedOption(
                    only,
                    () -> spark.read().format("terrace").option(option, "1").load(streams.path()));
            for (String columns : List.of("id", "count(*)")) {
                refusedOption(
                        only,
                        () ->
                                spark.read()
                                        .option(option, "1")
                                        .table(streams.table())
                                        .selectExpr(columns)
                                        .collect());
            }
            refusedOption(
                    only,
                    () ->
                            spark.range(1)
                                    .write()
                                    .format("terrace")
                                    .option(option, "1")
                                    .mode("append")
                                    .save(streams.path()));
            refusedOption(
                    only,
                    () ->
                            streams.writer(streams.rows(NONE), "written")
                                    .format("terrace")
                                    .option(option, "1")
                                    .start(dir.resolve("other").toString())
                                    .awaitTermination());
        }
    }

    @Test
    void anEntryOfACatalogHasNoOptionsOfStreams() {
        streams.append(0, 1);
        String entry =
                "CREATE TABLE entry_of_stream USING terrace OPTIONS (skipChangeCommits 'true')";
        spark.sql("DROP TABLE IF EXISTS entry_of_stream");
        spark.sql(entry + " LOCATION '" + streams.path() + "'");
        try {
            for (Executable use :
                    List.<Executable>of(
                            () -> spark.table("entry_of_stream").count(),
                            () -> spark.sql("INSERT INTO entry_of_stream VALUES (1)"),
                            () -> spark.sql("DELETE FROM entry_of_stream WHERE id = 1"),
                            () -> spark.sql("UPDATE entry_of_stream SET id = 1"),
                            () ->
                                    streams.run(
                                            spark.readStream().table("entry_of_stream"),
                                            "checkpoint",
                                            Dataset::count))) {
                refusedOption("has no effect in a catalog's entry", use);
            }
        } finally {
            spark.sql("DROP TABLE entry_of_stream");
        }
    }

    @Test
    void continuousQueriesAndDirectoriesOfObjectsAreRefused() throws Exception {
        streams.append(0, 1);
        refusedOption(
                "does not support continuous processing",
                () ->
                        streams.writer(streams.rows(NONE), "checkpoint")
                                .trigger(Trigger.Continuous("1 second"))
                                .format("console")
                                .start()
                                .awaitTermination());
        Dataset<Row> rows = streams.rows(NONE);
        assertTrue(
                streams.log().commit(new Manifest(2, Manifest.OBJECTS, "X", Map.of(), List.of())));
        refusedOption("holds durable objects", () -> streams.run(rows, "objects", Dataset::count));
    }

    @Test
    void aRunningStreamReadsWhatTwoWritersAppend() throws Exception {
        streams.append(0, 1);
        String sink = dir.resolve("sink").toString();
        StreamingQuery query =
                streams.writer(streams.rows(Map.of("maxFilesPerTrigger", "1")), "checkpoint")
                        .format("terrace")
                        .trigger(Trigger.ProcessingTime(0))
                        .start(sink);
        try {
            List<Thread> writers = new ArrayList<>();
            for (int writer = 1; writer <= 2; writer++) {
                int from = writer * 100;
                writers.add(
                        Thread.startVirtualThread(() -> {
                            for (int i = 0; i < 4; i++) {
                                streams.append(from + 2 * i, 2);
                            }
                        }));
            }
            for (Thread writer : writers) {
                writer.join();
            }
            query.processAllAvailable();
        } finally {
            query.stop();
        }
        List<Long> there = TableStreams.ids(streams.sql("SELECT * FROM TARGET"));
        assertEquals(17, there.size());
        assertEquals(there, TableStreams.ids(spark.read().format("terrace").load(sink)));
    }
}
