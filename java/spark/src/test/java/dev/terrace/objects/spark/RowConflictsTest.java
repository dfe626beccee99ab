package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// Statements that meet commits of others.
@ExtendWith(LocalSpark.class)
class RowConflictsTest {
    /// What the function `meanwhile` does, once, in the middle of a statement that calls it.
    private static final AtomicReference<@Nullable Runnable> MEANWHILE = new AtomicReference<>();

    @TempDir private Path dir;

    private final SparkSession spark;
    private String table = "";

    RowConflictsTest(SparkSession spark) {
        this.spark = spark;
    }

    @BeforeEach
    void registerFunction() {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        table = "terrace.`" + dir + "`";
        spark.udf()
                .register(
                        "meanwhile",
                        (Long id) -> {
                            Runnable work = MEANWHILE.getAndSet(null);
                            if (work != null) {
                                // Not in the task, which has no session.
                                CompletableFuture.runAsync(work).join();
                            }
                            return id;
                        },
                        DataTypes.LongType);
    }

    private void append(long from, long to, String isolation) {
        spark.range(from, to, 1, 1)
                .selectExpr("id", "'stored' name")
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("isolation", isolation)
                .mode("append")
                .save(dir.toString());
    }

    /// A table with a part of 100 rows for each of these, the first of which has 0 to 99.
    private void parts(int count, String isolation) {
        for (int i = 0; i < count; i++) {
            append(100L * i, 100L * i + 100, isolation);
        }
    }

    /// Runs a statement with another thing in its middle.
    private void run(String statement, Runnable meanwhile) {
        MEANWHILE.set(meanwhile);
        spark.sql(statement.replace("TABLE", table));
        assertEquals(null, MEANWHILE.get(), "it was in the middle");
    }

    private void expectConflict(String statement, Runnable meanwhile, String why) {
        UncheckedIOException refused =
                assertThrows(UncheckedIOException.class, () -> run(statement, meanwhile));
        String message =
                assertInstanceOf(CommitConflictException.class, refused.getCause()).getMessage();
        assertTrue(message.contains(why) && message.contains("changed nothing"), message);
        assertTrue(message.contains(dir.toString()), message);
    }

    private long count(String condition) {
        return spark.sql("SELECT * FROM " + table + " WHERE " + condition).count();
    }

    private static final String MERGE =
            "MERGE INTO TABLE t USING (SELECT meanwhile(id) id FROM range(90, 110)) s ON t.id ="
                + " s.id WHEN MATCHED THEN UPDATE SET name = 'merged' WHEN NOT MATCHED THEN INSERT"
                + " (id, name) VALUES (s.id, 'new')";

    @Test
    void aMergeThatMeetsAnAppendIsToldAndRunAgain() throws IOException {
        parts(1, "serializable");
        expectConflict(
                MERGE,
                () -> append(100, 105, "serializable"),
                "added rows that it would have had to look at (commit 2)");
        assertEquals(105, count("name = 'stored'"));
        assertEquals(2, names("parts").size());
        assertEquals(List.of(), names("deletions"));
        assertEquals(List.of(), names("jobs"));
        spark.sql(MERGE.replace("TABLE", table));
        assertEquals(110, count("true"));
        assertEquals(15, count("name = 'merged'"));
        assertEquals(5, count("name = 'new'"));
    }

    /// The bitmaps of the old parts say nothing of the new ones.
    @Test
    void aStatementThatMeetsAnOptimizationLosesAndDoublesNothing() throws IOException {
        for (String isolation : List.of("snapshot", "serializable")) {
            parts(2, isolation);
            spark.sql("DELETE FROM " + table + " WHERE id % 10 = 3 AND name <> 'x'");
            for (String statement :
                    List.of(
                            "DELETE FROM TABLE WHERE id < 150 AND meanwhile(id) >= 0",
                            "UPDATE TABLE SET name = 'new' WHERE id < 50 AND meanwhile(id) >= 0",
                            MERGE)) {
                expectConflict(statement, this::optimize, "to other parts, by an optimization");
                assertEquals(180, count("name = 'stored'"), statement);
                assertEquals(180, count("true"), statement);
                assertEquals(List.of(), names("jobs"));
            }
            spark.sql("DELETE FROM " + table + " WHERE id < 150 AND name <> 'x'");
            assertEquals(45, count("true"));
            spark.sql("DROP TABLE " + table);
        }
    }

    private void optimize() {
        try {
            Optimization.defaults().ofAllParts().run(spark, dir.toString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void aStatementDoesNotMindRowsThatItsConditionLeavesOut() {
        parts(1, "serializable");
        run(
                "DELETE FROM TABLE WHERE id < 50 AND meanwhile(id) >= 0",
                () -> append(100, 200, "serializable"));
        assertEquals(150, count("true"));
        run(
                "UPDATE TABLE SET name = 'changed' WHERE id < 60 AND meanwhile(id) >= 0",
                () -> spark.sql("DELETE FROM " + table + " WHERE id >= 190"));
        assertEquals(140, count("true"));
        assertEquals(10, count("name = 'changed'"));
    }

    @Test
    void ofTwoThatChangeOnePartTheSecondIsTold() {
        for (String isolation : List.of("serializable", "snapshot")) {
            parts(1, isolation);
            expectConflict(
                    "UPDATE TABLE SET name = 'changed' WHERE id < 50 AND meanwhile(id) >= 0",
                    () -> spark.sql("DELETE FROM " + table + " WHERE id >= 50"),
                    "changed or removed rows beside those that it changes (commit 2): run the"
                            + " statement again");
            assertEquals(50, count("name = 'stored'"));
            expectConflict(
                    "DELETE FROM TABLE WHERE id < 50 AND meanwhile(id) >= 0",
                    () -> spark.sql("INSERT OVERWRITE " + table + " VALUES (1, 'only')"),
                    "changed or removed rows");
            assertEquals(1, count("true"));
            expectConflict(
                    "DELETE FROM TABLE WHERE id < 50 AND meanwhile(id) >= 0",
                    () -> spark.sql("DROP TABLE " + table),
                    "dropped the table");
            parts(1, isolation);
            expectConflict(
                    "DELETE FROM TABLE WHERE id < 50 AND meanwhile(id) >= 0",
                    () -> spark.sql("CREATE OR REPLACE TABLE " + table + " AS SELECT 1L other"),
                    "made another of it");
            spark.sql("DROP TABLE " + table);
        }
    }

    @Test
    void withSnapshotIsolationOnlyPartsCountThatAStatementChanges() {
        parts(2, "snapshot");
        run(MERGE, () -> append(100, 105, "snapshot"));
        // The rows that were appended meanwhile are there beside those that were not.
        assertEquals(205, count("true"));
        assertEquals(20, count("name = 'merged'"));
        run(
                "DELETE FROM TABLE WHERE meanwhile(id) = 5",
                () -> spark.sql("DELETE FROM " + table + " WHERE id > 150"));
        assertEquals(155, count("true"));
    }

    @Test
    void statementsThatAreRunAgainAllCount() throws Exception {
        parts(1, "serializable");
        try (var sessions = Executors.newFixedThreadPool(4)) {
            List<Callable<Object>> statements =
                    IntStream.range(0, 4)
                            .mapToObj(i -> Executors.callable(() -> untilDone(i)))
                            .toList();
            for (Future<Object> done : sessions.invokeAll(statements)) {
                done.get();
            }
        }
        assertEquals(60, count("true"));
        assertEquals(0, count("id % 10 < 4"));
    }

    /// Runs a statement again for as long as it meets others.
    private void untilDone(int digit) {
        while (true) {
            try {
                spark.sql("DELETE FROM " + table + " WHERE id % 10 = " + digit);
                return;
            } catch (UncheckedIOException e) {
                assertInstanceOf(CommitConflictException.class, e.getCause());
            }
        }
    }

    private List<String> names(String directory) throws IOException {
        if (!Files.exists(dir.resolve(directory))) {
            return List.of();
        }
        try (var files = Files.list(dir.resolve(directory))) {
            return files.map(path -> path.getFileName().toString()).sorted().toList();
        }
    }
}
