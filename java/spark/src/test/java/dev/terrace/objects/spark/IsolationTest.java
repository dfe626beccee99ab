package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.EnumSet;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/// Each statement that changes rows in the middle of which another session commits each other
/// thing. It has changed nothing and says why, or the table has the rows that come of both, one
/// after the other.
@ExtendWith(LocalSpark.class)
class IsolationTest {
    /// The work of the function `others`, once, in the middle of a statement that calls it.
    private static final AtomicReference<@Nullable Runnable> OTHERS = new AtomicReference<>();

    /// Statements that look at rows of the first part only.
    enum Statement {
        DELETE("DELETE FROM TABLE WHERE id < 50 AND others(id) >= 0"),
        UPDATE("UPDATE TABLE SET name = 'changed' WHERE id < 50 AND others(id) >= 0"),
        MERGE(
                "MERGE INTO TABLE t USING (SELECT others(if(id < 50, id, id + 1000)) id"
                        + " FROM range(40, 60)) s ON t.id < 50 AND t.id = s.id"
                        + " WHEN MATCHED AND s.id < 45 THEN DELETE"
                        + " WHEN MATCHED THEN UPDATE SET name = 'merged'"
                        + " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')"),
        /// Its keys are the only condition.
        UPSERT(
                "MERGE INTO TABLE t USING (SELECT others(id) id FROM range(40, 50)) s"
                        + " ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'merged'"
                        + " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')"),
        SUBQUERY("DELETE FROM TABLE WHERE id IN (SELECT others(id) FROM range(40, 50))");

        private final String sql;

        /// The command that messages name.
        String command() {
            return switch (this) {
                case UPSERT -> "MERGE";
                case SUBQUERY -> "DELETE";
                default -> name();
            };
        }

        Statement(String sql) {
            this.sql = sql;
        }
    }

    /// The statement that somebody else runs meanwhile.
    enum Other {
        APPENDS_OTHER_ROWS("INSERT INTO TABLE SELECT id, 'late' FROM range(700, 710)"),
        APPENDS_SUCH_ROWS("INSERT INTO TABLE SELECT id, 'late' FROM range(44, 48)"),
        DELETES_ELSEWHERE("DELETE FROM TABLE WHERE id > 150 AND id < 160 AND name <> ''"),
        DELETES_IN_THE_PART("DELETE FROM TABLE WHERE id > 90 AND id < 110 AND name <> ''"),
        UPDATES_THE_SAME("UPDATE TABLE SET name = 'other' WHERE id = 45"),
        DELETES_OTHER_PARTS("DELETE FROM TABLE WHERE id >= 100"),
        OVERWRITES("INSERT OVERWRITE TABLE SELECT id, 'over' FROM range(30, 60)"),
        OPTIMIZES("CALL terrace.system.optimize(table => 'PATH', all_parts => true)");

        private final String sql;

        Other(String sql) {
            this.sql = sql;
        }
    }

    /// Those that no statement goes with.
    private static final Set<Other> ALWAYS =
            EnumSet.of(
                    Other.DELETES_IN_THE_PART,
                    Other.UPDATES_THE_SAME,
                    Other.OVERWRITES,
                    Other.OPTIMIZES);

    @TempDir private Path dir;

    private final SparkSession spark;
    private final SparkSession another;

    IsolationTest(SparkSession spark) {
        this.spark = spark;
        another = spark.newSession();
    }

    @BeforeEach
    void prepare() {
        for (SparkSession session : List.of(spark, another)) {
            session.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
            session.udf()
                    .register(
                            "others",
                            (Long id) -> {
                                Runnable work = OTHERS.getAndSet(null);
                                if (work != null) {
                                    // Not in the task, which has no session.
                                    CompletableFuture.runAsync(work).join();
                                }
                                return id;
                            },
                            DataTypes.LongType);
        }
    }

    /// A table with parts of 100 rows each.
    private Path made(String name, String isolation) {
        Path path = dir.resolve(name);
        for (int i = 0; i < 3; i++) {
            spark.range(100L * i, 100L * i + 100, 1, 1)
                    .selectExpr("id", "'stored' name")
                    .write()
                    .format("terrace")
                    .option("extent", 1 << 20)
                    .option("isolation", isolation)
                    .mode("append")
                    .save(path.toString());
        }
        return path;
    }

    private static void run(SparkSession session, String sql, String path) {
        session.sql(sql.replace("TABLE", "terrace.`" + path + "`").replace("PATH", path)).collect();
    }

    private List<String> rows(Path path) {
        return spark.read().format("terrace").load(path.toString()).collectAsList().stream()
                .map(Row::toString)
                .sorted()
                .toList();
    }

    static Stream<List<Object>> pairs() {
        return Stream.of(Statement.values())
                .flatMap(statement ->
                        Stream.of(Other.values()).map(other -> List.<Object>of(statement, other)));
    }

    /// Under `serializable`, another commit is as if it had come before the statement.
    @ParameterizedTest
    @MethodSource("pairs")
    void aSerializableStatement(List<Object> pair) throws IOException {
        Set<Other> conflicts = EnumSet.copyOf(ALWAYS);
        conflicts.add(Other.APPENDS_SUCH_ROWS);
        meet((Statement) pair.get(0), (Other) pair.get(1), "serializable", conflicts);
    }

    static Stream<List<Object>> pairsWithConditions() {
        return pairs().filter(
                        pair -> ((Statement) pair.getFirst()).compareTo(Statement.MERGE) <= 0);
    }

    /// Under `snapshot`, rows that are added meanwhile are as if they had come after it.
    @ParameterizedTest
    @MethodSource("pairsWithConditions")
    void aStatementWithSnapshotIsolation(List<Object> pair) throws IOException {
        meet((Statement) pair.get(0), (Other) pair.get(1), "snapshot", ALWAYS);
    }

    private void meet(Statement statement, Other other, String isolation, Set<Other> conflicts)
            throws IOException {
        Path path = made("table", isolation);
        Path serial = made("serial", isolation);
        boolean isLast = isolation.equals("snapshot") && other == Other.APPENDS_SUCH_ROWS;
        run(spark, isLast ? statement.sql : other.sql, serial.toString());
        List<String> half = rows(serial);
        run(spark, isLast ? other.sql : statement.sql, serial.toString());

        OTHERS.set(() -> run(another, other.sql, path.toString()));
        if (conflicts.contains(other)) {
            requireConflict(statement, other, path);
            assertEquals(half, rows(path), "only the other one has changed it");
            assertEquals(List.of(), names(path, "jobs"));
            run(spark, statement.sql, path.toString());
        } else {
            run(spark, statement.sql, path.toString());
            assertNull(OTHERS.get(), "it was in the middle");
        }
        assertEquals(rows(serial), rows(path));
    }

    private void requireConflict(Statement statement, Other other, Path path) {
        UncheckedIOException refused =
                assertThrows(
                        UncheckedIOException.class,
                        () -> run(spark, statement.sql, path.toString()));
        String message =
                assertInstanceOf(CommitConflictException.class, refused.getCause()).getMessage();
        String why =
                switch (other) {
                    case APPENDS_SUCH_ROWS -> "added rows that it would have had to look at";
                    case OPTIMIZES -> "to other parts, by an optimization";
                    default -> "changed or removed rows";
                };
        for (String part :
                List.of(
                        statement.command() + " of terrace.`" + path + "`",
                        "has read commit 3 and changed nothing",
                        why + " beside those that it changes (commit 4)",
                        "run the statement again")) {
            assertTrue(
                    message.contains(part)
                            || message.contains(part.replace(" beside those that it changes", "")),
                    () -> part + " is not in " + message);
        }
        assertEquals(
                other == Other.APPENDS_SUCH_ROWS,
                message.endsWith(
                        ", or set the table's option isolation to snapshot, by which it does not"
                                + " mind such rows"),
                message);
    }

    private static List<String> names(Path path, String directory) throws IOException {
        try (var files = Files.list(path.resolve(directory))) {
            return files.map(file -> file.getFileName().toString()).toList();
        }
    }

    /// Commits before and behind it do not matter.
    @Test
    void theCommitIsNamedThatDoesNotGoWithAStatement() {
        Path path = made("table", "serializable");
        OTHERS.set(() -> {
            for (int i = 0; i < 9; i++) {
                Other other = i == 4 ? Other.APPENDS_SUCH_ROWS : Other.APPENDS_OTHER_ROWS;
                run(another, other.sql, path.toString());
            }
        });
        String message =
                assertThrows(
                                UncheckedIOException.class,
                                () -> run(spark, Statement.DELETE.sql, path.toString()))
                        .getMessage();
        assertTrue(message.contains("(commit 8)"), message);
    }

    /// When the statement has looked at the last commit, and before its own has its name.
    @ParameterizedTest
    @EnumSource
    void aStatementThatIsOvertakenAtItsCommit(Other other) throws IOException {
        Statement statement = Statement.UPSERT;
        Configuration configuration = spark.sparkContext().hadoopConfiguration();
        configuration.set("fs.racing.impl", RacingFileSystem.class.getName());
        configuration.set("fs.racing.terrace.commit", "rename");
        Path path = made("table", "serializable");
        Path serial = made("serial", "serializable");
        run(spark, other.sql, serial.toString());
        List<String> half = rows(serial);
        run(spark, statement.sql, serial.toString());
        RacingFileSystem.BEFORE_COMMIT.set(() ->
                CompletableFuture.runAsync(() -> run(another, other.sql, path.toString())).join());
        String racing = "racing:" + path;
        if (ALWAYS.contains(other) || other == Other.APPENDS_SUCH_ROWS) {
            UncheckedIOException refused =
                    assertThrows(
                            UncheckedIOException.class, () -> run(spark, statement.sql, racing));
            assertInstanceOf(CommitConflictException.class, refused.getCause());
            assertEquals(half, rows(path));
            assertEquals(List.of(), names(path, "jobs"));
        } else {
            run(spark, statement.sql, racing);
            assertEquals(rows(serial), rows(path));
        }
        assertNull(RacingFileSystem.BEFORE_COMMIT.get(), "it was overtaken");
    }
}
