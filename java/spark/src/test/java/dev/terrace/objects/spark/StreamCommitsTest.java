package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.StreamingQueryException;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Streams that meet commits which do not only add rows, vacuums, and the end of their table: they
/// go on, or say why they cannot, and miss nothing silently.
@ExtendWith(LocalSpark.class)
class StreamCommitsTest {
    private static final Map<String, String> NONE = Map.of();
    private static final Map<String, String> SKIPPING = Map.of("skipChangeCommits", "true");

    @TempDir private Path dir;

    private final SparkSession spark;
    private TableStreams streams;

    StreamCommitsTest(SparkSession spark) {
        this.spark = spark;
        streams = new TableStreams(spark, Path.of(""));
    }

    @BeforeEach
    void nameTable() {
        streams = new TableStreams(spark, dir);
    }

    private static void assertContains(String message, String... parts) {
        for (String part : parts) {
            assertTrue(message.contains(part), () -> message + "\nhas no " + part);
        }
    }

    private void optimize() throws Exception {
        assertTrue(Optimization.defaults().run(spark, streams.path()).partsBefore() > 0);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "DELETE FROM TARGET WHERE id = 1",
                "DELETE FROM TARGET WHERE id % 3 = 1",
                "DELETE FROM TARGET",
                "TRUNCATE TABLE TARGET",
                "UPDATE TARGET SET id = 50 WHERE id = 2",
                "MERGE INTO TARGET t USING (SELECT * FROM VALUES (2L), (60L) v(id)) s ON t.id ="
                    + " s.id WHEN MATCHED THEN UPDATE SET id = 70 WHEN NOT MATCHED THEN INSERT (id)"
                    + " VALUES (s.id)",
                "INSERT OVERWRITE TARGET VALUES (80L)",
                "CREATE OR REPLACE TABLE TARGET AS SELECT 90L id",
            })
    void aCommitThatChangesRowsEndsAStreamOrIsPassedOver(String statement) throws Exception {
        spark.range(0, 4, 1, 2).write().format("terrace").save(streams.path());
        assertEquals(List.of(List.of(0L, 1L, 2L, 3L)), streams.batches());
        streams.sql(statement);
        streams.append(100, 1);
        for (int i = 0; i < 2; i++) {
            assertContains(
                    streams.refused(),
                    "commit 2 of " + streams.table(),
                    "skipChangeCommits to true",
                    "new checkpointLocation");
        }
        assertEquals(List.of(List.of(100L)), streams.batches("checkpoint", SKIPPING));
        streams.append(101, 1);
        assertEquals(List.of(List.of(101L)), streams.batches());
        assertEquals(
                List.of(TableStreams.ids(streams.sql("SELECT * FROM TARGET"))),
                streams.batches("new", NONE));
    }

    @Test
    void whatIsCommittedBeforeAChangeIsGivenFirst() throws Exception {
        streams.append(0, 1);
        streams.append(1, 1);
        streams.sql("DELETE FROM TARGET WHERE id = 0");
        streams.append(2, 1);
        List<Long> given = new ArrayList<>();
        Dataset<Row> rows = streams.rows(Map.of("startingVersion", "1"));
        assertContains(
                assertThrows(
                                StreamingQueryException.class,
                                () ->
                                        streams.run(
                                                rows,
                                                "checkpoint",
                                                batch -> given.addAll(TableStreams.ids(batch))))
                        .getMessage(),
                "commit 3");
        assertEquals(List.of(0L, 1L), given);
        assertEquals(List.of(List.of(2L)), streams.batches("checkpoint", SKIPPING));
    }

    @Test
    void statementsThatOnlyAddRowsAreAppends() throws Exception {
        streams.sql("CREATE TABLE TARGET (id BIGINT)");
        assertEquals(List.of(), streams.batches());
        streams.sql("INSERT OVERWRITE TARGET VALUES (1L)");
        streams.sql(
                "MERGE INTO TARGET t USING (SELECT * FROM VALUES (1L), (2L) v(id)) s ON t.id = s.id"
                        + " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)");
        streams.sql("DELETE FROM TARGET WHERE id = 77");
        streams.sql("UPDATE TARGET SET id = 1 WHERE id = 77");
        streams.sql("INSERT INTO TARGET SELECT id FROM range(0)");
        assertEquals(List.of(List.of(1L, 2L)), streams.batches());
        streams.sql("TRUNCATE TABLE TARGET");
        assertContains(streams.refused(), "commit");
        assertEquals(List.of(), streams.batches("checkpoint", SKIPPING));
        streams.sql("CREATE OR REPLACE TABLE TARGET AS SELECT 3L id");
        assertEquals(List.of(List.of(3L)), streams.batches());
    }

    @Test
    void aQueryInCompleteModeReplacesRows() throws Exception {
        streams.append(0, 1);
        Dataset<Row> counts = streams.rows(NONE).groupBy().count().selectExpr("`count` id");
        TableStreams others = new TableStreams(spark, dir.resolve("others"));
        for (int i = 0; i < 2; i++) {
            streams.writer(counts, "checkpoint")
                    .format("terrace")
                    .outputMode("complete")
                    .start(others.path())
                    .awaitTermination();
            streams.append(10 + i, 1);
            if (i == 0) {
                assertEquals(List.of(List.of(1L)), others.batches());
            }
        }
        assertContains(others.refused(), "commit 2 of " + others.table());
        assertEquals(List.of(), others.batches("checkpoint", SKIPPING));
    }

    @Test
    void anOptimizationBringsNoRows() throws Exception {
        streams.append(0, 2);
        assertEquals(List.of(List.of(0L, 1L)), streams.batches());
        streams.append(2, 2);
        optimize();
        assertTrue(streams.manifest().rewrites());
        streams.append(4, 1);
        assertFalse(streams.manifest().rewrites());
        optimize();
        assertEquals(List.of(List.of(2L, 3L, 4L)), streams.batches());
        assertEquals(List.of(), streams.batches());
        assertEquals(
                List.of(List.of(0L, 1L, 2L, 3L, 4L)),
                streams.batches("each", Map.of("startingVersion", "1")));
        assertEquals(List.of(List.of(0L, 1L, 2L, 3L, 4L)), streams.batches("all", NONE));
    }

    @Test
    void anOptimizationOfAPartitionedTableBringsNoRows() throws Exception {
        streams.sql("CREATE TABLE TARGET (id BIGINT, day INT) PARTITIONED BY (day)");
        assertEquals(List.of(), streams.batches());
        String insert = "INSERT INTO TARGET SELECT id, CAST(id %% 3 AS INT) FROM range(%d, %d)";
        streams.sql(insert.formatted(0, 6));
        streams.sql(insert.formatted(6, 12));
        optimize();
        assertEquals(3, streams.manifest().parts().size());
        assertTrue(streams.manifest().rewrites());
        streams.sql(insert.formatted(12, 13));
        List<List<Long>> all = List.of(LongStream.range(0, 13).boxed().toList());
        assertEquals(all, streams.batches());
        assertEquals(List.of(), streams.batches());
        assertEquals(all, streams.batches("each", Map.of("startingVersion", "1")));
        assertEquals(all, streams.batches("now", NONE));
        streams.sql("ALTER TABLE TARGET SET TBLPROPERTIES ('sort.by' = 'id')");
        assertEquals(List.of(), streams.batches());
        streams.sql("ALTER TABLE TARGET DROP PARTITION (day = 1)");
        assertContains(streams.refused(), "commit 7 of " + streams.table());
    }

    /// By its partitions a filter is decided where the stream begins, and other rows come later.
    @Test
    void filtersOfPartitionsAreMetByWhatIsAdded() throws Exception {
        streams.sql("CREATE TABLE TARGET (id BIGINT, day INT) PARTITIONED BY (day)");
        streams.sql("INSERT INTO TARGET VALUES (1, 1), (2, 1)");
        Dataset<Row> ones = streams.rows(NONE).filter("day = 1").select("id");
        List<List<Long>> batches = new ArrayList<>();
        streams.run(ones, "checkpoint", batch -> batches.add(TableStreams.ids(batch)));
        streams.sql("INSERT INTO TARGET VALUES (3, 1), (4, 2), (5, NULL)");
        streams.run(ones, "checkpoint", batch -> batches.add(TableStreams.ids(batch)));
        assertEquals(List.of(List.of(1L, 2L), List.of(3L)), batches);
        TableScanBuilder builder =
                TerraceCatalog.table(streams.path())
                        .newScanBuilder(CaseInsensitiveStringMap.empty());
        Expression[] equal = {Expressions.column("day"), Expressions.literal(1)};
        builder.pushPredicates(new Predicate[] {new Predicate("=", equal)});
        assertContains(
                assertThrows(
                                IllegalStateException.class,
                                () -> builder.build().toMicroBatchStream("none"))
                        .getMessage(),
                "Spark's to evaluate");
    }

    @Test
    void aStreamIsBehindAnOptimizationThatItHasPassedOver() throws Exception {
        streams.append(0, 2);
        assertEquals(1, streams.batches().size());
        optimize();
        assertEquals(List.of(), streams.batches());
        streams.vacuum();
        streams.append(2, 1);
        assertEquals(List.of(List.of(2L)), streams.batches());
    }

    @Test
    void commitsThatAVacuumHasRemovedAreMissed() throws Exception {
        streams.append(0, 1);
        assertEquals(1, streams.batches().size());
        streams.vacuum();
        assertEquals(List.of(), streams.batches());
        streams.append(1, 1);
        streams.append(2, 1);
        streams.vacuum();
        String gone = "commit 1 of " + streams.table() + ", which the stream needs, is not there";
        assertContains(
                streams.refused(), gone, "but 3: a vacuum has removed it", "checkpointLocation");
        assertContains(streams.refused("checkpoint", SKIPPING), "a vacuum has removed it");
        assertContains(
                streams.refused("start", Map.of("startingVersion", "2")),
                gone,
                "a vacuum has removed it");
        assertEquals(List.of(List.of(0L, 1L, 2L)), streams.batches("new", NONE));
    }

    /// The first batch has some parts of the first rows; then they go.
    @Test
    void theFirstRowsMayNotOutlastAVacuum() throws Exception {
        streams.append(0, 3);
        Map<String, String> one = Map.of("maxFilesPerTrigger", "1");
        List<Long> given = new ArrayList<>();
        assertContains(
                assertThrows(
                                StreamingQueryException.class,
                                () ->
                                        streams.run(
                                                streams.rows(one),
                                                "checkpoint",
                                                batch -> {
                                                    given.addAll(TableStreams.ids(batch));
                                                    streams.sql(
                                                            "INSERT OVERWRITE TARGET VALUES (9L)");
                                                    streams.vacuum();
                                                }))
                        .getMessage(),
                "commit 1 of " + streams.table(),
                "a vacuum has removed it");
        assertEquals(List.of(0L), given);
        assertContains(streams.refused("checkpoint", one), "a vacuum has removed it");
    }

    @Test
    void partsMayGoWhileABatchReadsThem() throws Exception {
        streams.append(0, 1);
        String gone =
                assertThrows(
                                StreamingQueryException.class,
                                () ->
                                        streams.run(
                                                streams.rows(NONE),
                                                "checkpoint",
                                                batch -> {
                                                    batch.queryExecution().executedPlan();
                                                    streams.sql("TRUNCATE TABLE TARGET");
                                                    streams.vacuum();
                                                    batch.count();
                                                }))
                        .getMessage();
        assertContains(gone, "a vacuum has removed it");
        assertContains(streams.refused(), "commit 1", "a vacuum has removed it");
    }

    @Test
    void deletedRowsOfTheFirstVersionStayAsTheyWere() throws Exception {
        spark.range(0, 10, 1, 2).write().format("terrace").save(streams.path());
        streams.sql("DELETE FROM TARGET WHERE id % 5 = 1");
        List<List<Long>> batches = new ArrayList<>();
        streams.run(
                streams.rows(Map.of("maxFilesPerTrigger", "1")),
                "checkpoint",
                batch -> {
                    batches.add(TableStreams.ids(batch));
                    if (batches.size() == 1) {
                        streams.sql("DELETE FROM TARGET WHERE id % 5 = 2");
                    }
                });
        assertEquals(List.of(List.of(0L, 2L, 3L, 4L), List.of(5L, 7L, 8L, 9L)), batches);
        assertContains(streams.refused(), "commit 3");
    }

    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aTableThatWasMadeAnewIsAnother(boolean hasRows) throws Exception {
        for (int i = 0; i < 2; i++) {
            streams.sql("DROP TABLE IF EXISTS TARGET");
            streams.sql("CREATE TABLE TARGET (id BIGINT)");
            if (hasRows) {
                streams.append(10 * i, 2);
            }
            if (i == 0) {
                assertEquals(hasRows ? 1 : 0, streams.batches().size());
            }
        }
        int last = hasRows ? 2 : 1;
        for (int i = 0; i < 2; i++) {
            assertContains(
                    streams.refused("checkpoint", i == 0 ? NONE : SKIPPING),
                    "commit " + last + " of " + streams.table() + " is another",
                    "dropped and made anew",
                    "new checkpointLocation");
            streams.append(20, 1);
        }
    }

    /// The same stream has read the manifest that was there before.
    @ParameterizedTest
    @ValueSource(booleans = {true, false})
    void aStreamNoticesATableThatIsMadeAnewWhileItRuns(boolean hasRows) throws Exception {
        TableStream stream = null;
        TableOffset offset = null;
        for (int i = 0; i < 2; i++) {
            streams.sql("DROP TABLE IF EXISTS TARGET");
            streams.sql("CREATE TABLE TARGET (id BIGINT)");
            if (hasRows) {
                streams.append(i, 1);
            }
            if (i == 0) {
                stream = streams.stream(NONE);
                offset = stream.latestOffset();
                assertEquals(offset, stream.latestOffset(offset, ReadLimit.allAvailable()));
            }
        }
        TableStream running = stream;
        TableOffset read = offset;
        assertContains(
                assertThrows(
                                IllegalStateException.class,
                                () -> running.latestOffset(read, ReadLimit.allAvailable()))
                        .getMessage(),
                "is another than the stream has read");
    }

    @Test
    void aBatchThatRunsAgainReadsNoOtherTable() throws Exception {
        for (int i = 0; i < 2; i++) {
            streams.append(i, 1);
            if (i == 0) {
                streams.batches();
                streams.forgetCommit("checkpoint", 0);
                streams.sql("DROP TABLE TARGET");
            }
        }
        List<Long> given = new ArrayList<>();
        Dataset<Row> rows = streams.rows(NONE);
        assertContains(
                assertThrows(
                                StreamingQueryException.class,
                                () ->
                                        streams.run(
                                                rows,
                                                "checkpoint",
                                                batch -> given.addAll(TableStreams.ids(batch))))
                        .getMessage(),
                "commit 1 of " + streams.table() + " is another");
        assertEquals(List.of(), given);
    }

    @Test
    void aTableWithLessCommitsWasMadeAnew() throws Exception {
        streams.append(0, 1);
        streams.append(1, 1);
        assertEquals(1, streams.batches().size());
        streams.sql("DROP TABLE TARGET");
        streams.append(0, 1);
        assertContains(
                streams.refused(),
                "commit 2 of " + streams.table(),
                "but 1: the table was dropped and made anew, or restored",
                "checkpointLocation");
    }

    @Test
    void aTableThatIsMovedIsTheSame() throws Exception {
        streams.append(0, 1);
        assertEquals(1, streams.batches().size());
        streams.append(1, 1);
        TableStreams moved = new TableStreams(spark, Files.createDirectory(dir.resolve("moved")));
        Files.move(dir.resolve("table"), dir.resolve("moved").resolve("table"));
        Files.move(dir.resolve("checkpoint"), dir.resolve("moved").resolve("checkpoint"));
        assertEquals(List.of(List.of(1L)), moved.batches());
    }

    private StreamingQuery running() throws Exception {
        return streams.writer(streams.rows(NONE), "checkpoint")
                .format("noop")
                .trigger(Trigger.ProcessingTime(0))
                .start();
    }

    private String end(StreamingQuery query) throws Exception {
        try {
            return assertThrows(
                            StreamingQueryException.class,
                            () -> assertTrue(query.awaitTermination(60_000)))
                    .getMessage();
        } finally {
            query.stop();
        }
    }

    @Test
    void aRunningStreamEndsWithItsTable() throws Exception {
        streams.append(0, 1);
        StreamingQuery query = running();
        query.processAllAvailable();
        streams.sql("DROP TABLE TARGET");
        assertContains(
                end(query), streams.table() + " is not there any more", "checkpointLocation");
    }

    @Test
    void aRunningStreamMeetsAChange() throws Exception {
        streams.append(0, 1);
        StreamingQuery query = running();
        query.processAllAvailable();
        optimizeAll();
        streams.append(1, 1);
        query.processAllAvailable();
        streams.sql("DELETE FROM TARGET WHERE id = 1");
        assertContains(end(query), "commit 4 of " + streams.table());
    }

    private void optimizeAll() throws Exception {
        assertEquals(
                1, Optimization.defaults().ofAllParts().run(spark, streams.path()).partsAfter());
    }

    @Test
    void aStreamHasTheColumnsWithWhichItWasLoaded() throws Exception {
        streams.append(0, 1);
        Dataset<Row> loaded = streams.rows(SKIPPING);
        streams.run(loaded, "checkpoint", Dataset::count);
        streams.sql("CREATE OR REPLACE TABLE TARGET AS SELECT 'a' id, 1 other");
        // What it brings is passed over, whatever columns it has.
        streams.run(loaded, "checkpoint", Dataset::count);
        streams.sql("INSERT INTO TARGET VALUES ('b', 2)");
        String columns =
                assertThrows(
                                StreamingQueryException.class,
                                () -> streams.run(loaded, "checkpoint", Dataset::count))
                        .getMessage();
        assertContains(
                columns,
                "commit 3 of " + streams.table() + " has the columns struct<id:string,other:int>",
                "the stream has struct<id:bigint>",
                "load the table again");
        List<String> rows = new ArrayList<>();
        streams.run(
                streams.rows(NONE),
                "checkpoint",
                batch -> batch.collectAsList().forEach(row -> rows.add(row.toString())));
        assertEquals(List.of("[b,2]"), rows);
        assertContains(
                streams.refused("old", Map.of("startingVersion", "1")),
                "commit 1 of " + streams.table() + " has the columns struct<id:bigint>",
                "new checkpointLocation");
    }

    @Test
    void otherColumnsOfAnEmptyTableAreReadWhenItIsLoadedAgain() throws Exception {
        streams.sql("CREATE TABLE TARGET (id BIGINT)");
        Dataset<Row> loaded = streams.rows(NONE);
        streams.run(loaded, "checkpoint", Dataset::count);
        streams.sql("CREATE OR REPLACE TABLE TARGET AS SELECT 3L id, 4 other");
        assertContains(
                assertThrows(
                                StreamingQueryException.class,
                                () -> streams.run(loaded, "checkpoint", Dataset::count))
                        .getMessage(),
                "load the table again");
        assertEquals(List.of(List.of(3L)), streams.batches());
    }
}
