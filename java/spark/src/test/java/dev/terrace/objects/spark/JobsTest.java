package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import org.apache.spark.SparkException;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// Attempts that fail, and jobs that are cancelled.
@ExtendWith(LocalSpark.class)
class JobsTest {
    /// Given by a function that waits when it has come to its row.
    private static final Semaphore REACHED = new Semaphore(0);

    @TempDir private Path dir;

    @BeforeEach
    void registerFunctions(SparkSession spark) {
        spark.udf()
                .register(
                        "fails_twice",
                        (Long id) -> {
                            if (id == 70 && TaskContext.get().attemptNumber() < 2) {
                                throw new IllegalStateException(
                                        "attempt " + TaskContext.get().attemptNumber());
                            }
                            return id;
                        },
                        DataTypes.LongType);
        spark.udf()
                .register(
                        "fails_always",
                        (Long id) -> {
                            if (id == 70) {
                                throw new IllegalStateException("no");
                            }
                            return id;
                        },
                        DataTypes.LongType);
        spark.udf()
                .register(
                        "waits",
                        (Long id) -> {
                            if (id == 70) {
                                REACHED.release();
                                Thread.sleep(60_000);
                            }
                            return id;
                        },
                        DataTypes.LongType);
    }

    private static Dataset<Row> numbers(SparkSession spark, String function) {
        return spark.range(0, 100, 1, 2).selectExpr(function + "(id) id");
    }

    private void append(Dataset<Row> rows) {
        rows.write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("block.rows", 10)
                .mode("append")
                .save(dir.toString());
    }

    private long count(SparkSession spark) {
        Dataset<Row> table = spark.read().format("terrace").load(dir.toString());
        assertEquals(table.count(), table.filter("id >= 0").select("id").collectAsList().size());
        return table.count();
    }

    private List<String> names(String directory) throws IOException {
        if (!Files.exists(dir.resolve(directory))) {
            return List.of();
        }
        try (var files = Files.list(dir.resolve(directory))) {
            return files.map(path -> path.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void attemptsThatFailLeaveNoDuplicate(SparkSession spark) throws IOException {
        append(numbers(spark, "fails_twice"));
        assertEquals(100, count(spark));
        assertEquals(2, names("parts").size());
        assertEquals(List.of(), names("jobs"));
    }

    @Test
    void aJobThatFailsLeavesNothing(SparkSession spark) throws IOException {
        assertThrows(SparkException.class, () -> append(numbers(spark, "fails_always")));
        assertEquals(List.of(), names("parts"));
        assertEquals(List.of(), names("manifests"));
        append(numbers(spark, "abs"));
        List<String> before = names("parts");
        assertThrows(SparkException.class, () -> append(numbers(spark, "fails_always")));
        assertEquals(before, names("parts"));
        assertEquals(100, count(spark));
    }

    /// Runs something as a job that is cancelled, its threads interrupted, when it has come to the
    /// row at which it waits.
    private static void cancel(JavaSparkContext context, Runnable work)
            throws InterruptedException {
        CompletableFuture<Void> done =
                CompletableFuture.runAsync(() -> {
                    context.setJobGroup("cancelled", "a job that is cancelled", true);
                    work.run();
                });
        assertTrue(REACHED.tryAcquire(5, TimeUnit.MINUTES));
        context.cancelJobGroup("cancelled");
        assertThrows(CompletionException.class, done::join);
    }

    @Test
    void aWriteThatIsCancelledChangesNothing(SparkSession spark, JavaSparkContext context)
            throws Exception {
        append(numbers(spark, "abs"));
        List<String> before = names("parts");
        cancel(context, () -> append(numbers(spark, "waits")));
        awaitNames("parts", before);
        assertEquals(1, names("manifests").size());
        assertEquals(100, count(spark));
        append(numbers(spark, "abs"));
        assertEquals(200, count(spark));
    }

    private void update(SparkSession spark, String function) {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        spark.sql(
                "UPDATE terrace.`"
                        + dir
                        + "` SET id = "
                        + function
                        + "(id) + 1000 WHERE id % 2 = 0");
    }

    @Test
    void attemptsThatFailDeleteNothing(SparkSession spark) throws IOException {
        append(numbers(spark, "abs"));
        update(spark, "fails_twice");
        assertEquals(100, count(spark));
        Dataset<Row> table = spark.read().format("terrace").load(dir.toString());
        assertEquals(50, table.filter("id >= 1000").count());
        assertEquals(4, names("parts").size());
        assertEquals(1, names("deletions").size());
        assertEquals(List.of(), names("jobs"));
    }

    @Test
    void aStatementThatFailsOrIsCancelledChangesNothing(
            SparkSession spark, JavaSparkContext context) throws Exception {
        append(numbers(spark, "abs"));
        List<String> before = names("parts");
        assertThrows(SparkException.class, () -> update(spark, "fails_always"));
        assertEquals(before, names("parts"));
        cancel(context, () -> update(spark, "waits"));
        awaitNames("parts", before);
        assertEquals(1, names("manifests").size());
        assertEquals(List.of(), names("deletions"));
        Dataset<Row> table = spark.read().format("terrace").load(dir.toString());
        assertEquals(0, table.filter("id >= 100").count());
        assertEquals(100, count(spark));
    }

    @Test
    void aReadThatIsCancelledLeavesThePoolAsItWas(SparkSession spark, JavaSparkContext context)
            throws Exception {
        append(numbers(spark, "abs"));
        cancel(
                context,
                () ->
                        spark.read()
                                .format("terrace")
                                .load(dir.toString())
                                .selectExpr("waits(id)")
                                .collect());
        assertEquals(100, count(spark));
        spark.sql("DROP TABLE terrace.`" + dir + "`");
        assertTrue(!Files.exists(dir));
    }

    @Test
    void aSaveThatIsCancelledLeavesNothing(JavaSparkContext context) throws Exception {
        PartitionOptions options = PartitionOptions.defaults().extents(1 << 20);
        cancel(
                context,
                () -> {
                    try {
                        DurableRDD.save(
                                context.parallelize(List.of(1, 2, 3), 1)
                                        .map(id -> {
                                            if (id == 3) {
                                                REACHED.release();
                                                Thread.sleep(60_000);
                                            }
                                            return Point.of(id);
                                        }),
                                Point.class,
                                DurablePoint.class,
                                dir.toString(),
                                options);
                    } catch (IOException e) {
                        throw new AssertionError(e);
                    }
                });
        awaitNames("parts", List.of());
        assertEquals(List.of(), names("manifests"));
    }

    /// The driver does not wait for tasks that it has killed: they remove what they wrote when they
    /// notice.
    private void awaitNames(String directory, List<String> expected) throws Exception {
        for (int i = 0; i < 2000 && !names(directory).equals(expected); i++) {
            Thread.sleep(50);
        }
        assertEquals(expected, names(directory));
    }
}
