package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.LongStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Writes that replace some partitions, as Spark's own tables of files do, and what happens if
/// others change the same at the same time.
@ExtendWith(LocalSpark.class)
class OverwriteTest {
    private static final String MODE = "spark.sql.sources.partitionOverwriteMode";

    /// What the function `during` does, once, in the middle of a write that calls it.
    private static final AtomicReference<@Nullable Runnable> DURING = new AtomicReference<>();

    @TempDir private Path dir;

    private final SparkSession spark;
    private String table = "";

    OverwriteTest(SparkSession spark) {
        this.spark = spark;
    }

    @BeforeEach
    void nameTable() {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        table = "terrace.`" + dir.resolve("table") + "`";
        spark.udf()
                .register(
                        "during",
                        (Long id) -> {
                            Runnable work = DURING.getAndSet(null);
                            if (work != null) {
                                // Not in the task, which has no session.
                                CompletableFuture.runAsync(work).join();
                            }
                            return id;
                        },
                        DataTypes.LongType);
    }

    @AfterEach
    void forget() {
        spark.conf().unset(MODE);
        spark.sql("DROP TABLE IF EXISTS overwritten_parquet");
    }

    private Dataset<Row> run(String statement) {
        return spark.sql(statement.replace("TABLE_NAME", table));
    }

    private String rows() {
        return run("SELECT day, count(*), min(name) FROM TABLE_NAME GROUP BY day ORDER BY day")
                .collectAsList()
                .toString();
    }

    private Manifest manifest() throws IOException {
        return TerraceCatalog.log(dir.resolve("table").toString()).require(Manifest.TABLE);
    }

    /// A table with days 1 to 3, of which each has ten rows.
    private void days() {
        run(
                "CREATE TABLE TABLE_NAME (id LONG, day INT, name STRING) PARTITIONED BY (day)"
                        + " TBLPROPERTIES ('extent' = '1048576')");
        run("INSERT INTO TABLE_NAME SELECT id, CAST(1 + id % 3 AS INT), 'old' FROM range(30)");
    }

    /// A few, or as many as `-Dterrace.seeds=100` says.
    static LongStream statementsReplaceWhatTheyDoOfParquet() {
        return LongStream.rangeClosed(1, Long.getLong("terrace.seeds", 3));
    }

    @ParameterizedTest
    @MethodSource
    void statementsReplaceWhatTheyDoOfParquet(long seed) {
        Random random = new Random(seed);
        String columns = " (id LONG, day DATE, kind STRING) ";
        run("CREATE TABLE TABLE_NAME" + columns + "PARTITIONED BY (day, kind)");
        run(
                "CREATE TABLE overwritten_parquet"
                        + columns
                        + "USING parquet PARTITIONED BY (day,"
                        + " kind)");
        for (int i = 0; i < 8; i++) {
            int from = random.nextInt(5);
            String day = "DATE'2030-01-0" + (1 + random.nextInt(3)) + "'";
            String days = "IF(id % 4 = 0, NULL, date_add(DATE'2030-01-01', CAST(id % 3 AS INT)))";
            String kinds = "IF(id % 5 = 0, NULL, concat('é/=%', id % 2))";
            int kind = random.nextInt(5);
            // Of one partition Parquet files are replaced by nothing, also in dynamic mode.
            int count = kind == 2 ? 1 + random.nextInt(5) : random.nextInt(6);
            String range = " FROM range(" + from + ", " + (from + count) + ")";
            String statement =
                    switch (kind) {
                        case 0 -> "INTO OF SELECT id + 100 * " + i + ", " + days + ", " + kinds;
                        case 1 ->
                                "OVERWRITE OF PARTITION (day = "
                                        + day
                                        + ", kind) SELECT id, "
                                        + kinds;
                        case 2 ->
                                "OVERWRITE OF PARTITION (day = " + day + ", kind = 'a') SELECT id";
                        default ->
                                "OVERWRITE OF SELECT id + 100 * " + i + ", " + days + ", " + kinds;
                    };
            spark.conf().set(MODE, random.nextInt(3) > 0 ? "dynamic" : "static");
            spark.sql("INSERT " + statement.replace("OF", table) + range);
            spark.sql("INSERT " + statement.replace("OF", "overwritten_parquet") + range);
            assertEquals(
                    ParquetEqualityTest.sorted(spark.table("overwritten_parquet")),
                    ParquetEqualityTest.sorted(run("SELECT * FROM TABLE_NAME")),
                    "seed " + seed + ", " + spark.conf().get(MODE) + ": " + statement + range);
        }
    }

    @Test
    void exactlyTheWrittenPartitionsAreReplacedInOneCommit() throws Exception {
        days();
        long before = manifest().number();
        spark.sql("SELECT 1L id, 2 day, 'new' name UNION ALL SELECT 2L, 7, 'new'")
                .writeTo(table)
                .overwritePartitions();
        assertEquals("[[1,10,old], [2,1,new], [3,10,old], [7,1,new]]", rows());
        assertEquals(before + 1, manifest().number());
        spark.sql("SELECT 1L id, 2 day, 'new' name WHERE false")
                .writeTo(table)
                .overwritePartitions();
        assertEquals(before + 1, manifest().number(), "nothing was written");
        run("DELETE FROM TABLE_NAME WHERE id = 3");
        spark.sql("SELECT 1L id, 1 day, 'new' name").writeTo(table).overwritePartitions();
        assertEquals("[[1,1,new], [2,1,new], [3,10,old], [7,1,new]]", rows());
        try (var files = Files.list(dir.resolve("table").resolve("jobs"))) {
            assertEquals(0, files.count());
        }
    }

    @Test
    void rowsThatMeetAConditionAreReplacedIfTheyAreWholeParts() throws NoSuchTableException {
        days();
        Dataset<Row> one = spark.sql("SELECT 1L id, 9 day, 'new' name");
        one.writeTo(table).overwrite(functions.col("day").geq(2));
        assertEquals("[[1,10,old], [9,1,new]]", rows());
        Throwable refused =
                assertThrows(
                        Exception.class,
                        () -> one.writeTo(table).overwrite(functions.col("id").equalTo(3)));
        assertTrue(refused.getMessage().endsWith(": " + table + "."), refused::getMessage);
        one.writeTo(table).overwrite(functions.lit(true));
        assertEquals("[[9,1,new]]", rows());
    }

    /// A table without partitions is replaced as a whole, but by nothing if nothing is written.
    @Test
    void aTableWithoutPartitionsIsOne() throws NoSuchTableException {
        run("CREATE TABLE TABLE_NAME AS SELECT 1 day, 'old' name");
        spark.sql("SELECT 2 day, 'new' name").writeTo(table).overwritePartitions();
        assertEquals("[[2,1,new]]", rows());
        spark.sql("SELECT 2 day, 'new' name WHERE false").writeTo(table).overwritePartitions();
        assertEquals("[[2,1,new]]", rows());
        spark.conf().set(MODE, "dynamic");
        run("INSERT OVERWRITE TABLE_NAME SELECT 1, 'x' WHERE false");
        assertEquals("[[2,1,new]]", rows());
        run("INSERT OVERWRITE TABLE_NAME SELECT 1, 'x'");
        assertEquals("[[1,1,x]]", rows());
        spark.conf().set(MODE, "static");
        run("INSERT OVERWRITE TABLE_NAME SELECT 1, 'x' WHERE false");
        assertEquals("[]", rows());
    }

    @Test
    void theModeIsAnOptionOfAWrite() throws IOException {
        days();
        for (String mode : List.of("Dynamic", "static")) {
            spark.sql("SELECT 1L id, 2 day, '" + mode + "' name")
                    .write()
                    .format("terrace")
                    .option("partitionOverwriteMode", mode)
                    .mode("overwrite")
                    .save(dir.resolve("table").toString());
            assertEquals(
                    mode.equals("static")
                            ? "[[2,1,static]]"
                            : "[[1,10,old], [2,1,Dynamic], [3,10,old]]",
                    rows());
        }
        assertEquals(List.of("day"), manifest().partitioning());
        assertThrows(
                IllegalArgumentException.class,
                () ->
                        spark.sql("SELECT 1L id, 2 day, 'x' name")
                                .write()
                                .format("terrace")
                                .option("partitionOverwriteMode", "dynamo")
                                .mode("overwrite")
                                .save(dir.resolve("table").toString()));
    }

    private void expectConflict(String mode, String statement, Runnable meanwhile, String why) {
        spark.conf().set(MODE, mode);
        DURING.set(meanwhile);
        Throwable refused = assertThrows(Throwable.class, () -> run(statement));
        assertEquals(null, DURING.get(), "it was in the middle");
        while (refused.getCause() != null) {
            refused = refused.getCause();
        }
        String message = assertInstanceOf(CommitConflictException.class, refused).getMessage();
        assertTrue(message.contains(why) && message.contains("changed nothing"), message);
    }

    @Test
    void whatOthersDoInTheSamePartitionsIsAConflict() {
        days();
        String dynamic = "INSERT OVERWRITE TABLE_NAME SELECT during(id), 2, 'new' FROM range(3)";
        String fixed =
                "INSERT OVERWRITE TABLE_NAME PARTITION (day = 2) SELECT during(id), 'new' FROM"
                        + " range(3)";
        for (List<String> write : List.of(List.of("dynamic", dynamic), List.of("static", fixed))) {
            String mode = write.get(0);
            String statement = write.get(1);
            expectConflict(
                    mode,
                    statement,
                    () -> run("INSERT INTO TABLE_NAME VALUES (100, 2, 'other')"),
                    "added rows to what it replaces");
            expectConflict(
                    mode,
                    statement,
                    () -> run("DELETE FROM TABLE_NAME WHERE id = 100"),
                    "changed or removed rows that it replaces");
            expectConflict(
                    mode,
                    statement,
                    () -> run("DELETE FROM TABLE_NAME WHERE id = 4"),
                    "changed or removed rows that it replaces");
            expectConflict(
                    mode,
                    statement,
                    () ->
                            run(
                                    "CREATE OR REPLACE TABLE TABLE_NAME PARTITIONED BY (id) AS"
                                            + " SELECT * FROM TABLE_NAME"),
                    "made another of it");
            run("DROP TABLE TABLE_NAME");
            days();
            // Other partitions are none of its business.
            spark.conf().set(MODE, mode);
            DURING.set(() -> {
                run("INSERT INTO TABLE_NAME VALUES (100, 1, 'other')");
                run("DELETE FROM TABLE_NAME WHERE day = 3");
            });
            run(statement);
            assertEquals("[[1,11,old], [2,3,new]]", rows());
            run("DROP TABLE TABLE_NAME");
            days();
        }
    }
}
