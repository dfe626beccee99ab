package dev.terrace.objects.spark;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;

/// What a program does on a cluster, where tasks are tried twice at a time and executors are
/// killed. Says what came of it.
final class ClusterDriver {
    private static final int ROWS = 4000;

    private final SparkSession spark;
    private final Path dir;

    private ClusterDriver(SparkSession spark, Path dir) {
        this.spark = spark;
        this.dir = dir;
    }

    /// Runs.
    ///
    /// @param arguments the master's address, and a directory
    public static void main(String[] arguments) throws IOException, InterruptedException {
        SparkSession spark =
                SparkSession.builder()
                        .master(arguments[0])
                        .appName("cluster test")
                        .config("spark.ui.enabled", false)
                        .config("spark.driver.host", "127.0.0.1")
                        .config("spark.driver.bindAddress", "127.0.0.1")
                        .config("spark.executor.memory", "512m")
                        .config("spark.executor.extraClassPath", StandaloneCluster.classPath())
                        .config(
                                "spark.executor.extraJavaOptions",
                                "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
                        .config("spark.scheduler.minRegisteredResourcesRatio", 1)
                        .config("spark.cores.max", 2)
                        .config("spark.speculation", true)
                        .config("spark.speculation.interval", "50ms")
                        .config("spark.speculation.quantile", 0.5)
                        .config("spark.speculation.multiplier", 1.5)
                        .config("spark.speculation.minTaskRuntime", "200ms")
                        .config("spark.sql.shuffle.partitions", 2)
                        .config("spark.sql.codegen.wholeStage", false)
                        .config("spark.hadoop.fs.remote.impl", RemoteFileSystem.class.getName())
                        .config("spark.hadoop.fs.remote.terrace.commit", "rename")
                        .getOrCreate();
        ClusterDriver driver = new ClusterDriver(spark, Path.of(arguments[1]));
        driver.registerFunctions();
        driver.copyToNode();
        driver.saveObjects();
        driver.speculate();
        driver.loseAnExecutor();
        spark.stop();
    }

    private void registerFunctions() {
        String victim = dir.resolve("victim").toString();
        spark.udf()
                .register(
                        "slow_once",
                        (Long id) -> {
                            if (id == 1 && TaskContext.get().attemptNumber() == 0) {
                                Thread.sleep(60_000);
                            }
                            return id;
                        },
                        DataTypes.LongType);
        spark.udf()
                .register(
                        "killed_once",
                        (Long id) -> {
                            if (id == ROWS - 1 && TaskContext.get().attemptNumber() == 0) {
                                Path unfinished = Path.of(victim + ".new");
                                Files.writeString(
                                        unfinished, Long.toString(ProcessHandle.current().pid()));
                                Files.move(unfinished, Path.of(victim));
                                Thread.sleep(60_000);
                            }
                            return id;
                        },
                        DataTypes.LongType);
    }

    private void write(String table, String function, Map<String, String> options) {
        spark.range(0, ROWS, 1, 4)
                .selectExpr(function + "(id) id", "concat('row ', id) text")
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("block.rows", 100)
                .option("tier.text", "DISK")
                .options(options)
                .save(table);
    }

    private String describe(String table) {
        Dataset<Row> rows = spark.read().format("terrace").load(table);
        Row sums = rows.selectExpr("count(text)", "count(distinct id)", "sum(id)").first();
        return sums.toString();
    }

    private static long count(Path directory) throws IOException {
        try (var files = Files.list(directory)) {
            return files.filter(path -> !path.getFileName().toString().startsWith(".")).count();
        }
    }

    private void speculate() throws IOException {
        Path table = dir.resolve("speculated");
        write(table.toString(), "slow_once", Map.of());
        System.out.println(
                "speculated "
                        + describe(table.toString())
                        + " parts "
                        + count(table.resolve("parts")));
        spark.sql(
                "UPDATE terrace.`" + table + "` SET text = 'changed' WHERE slow_once(id) % 2 = 1");
        Dataset<Row> changed =
                spark.read().format("terrace").load(table.toString()).filter("text = 'changed'");
        System.out.println(
                "updated "
                        + describe(table.toString())
                        + " changed "
                        + changed.count()
                        + " deletions "
                        + count(table.resolve("deletions")));
    }

    private void loseAnExecutor() throws IOException {
        Path victim = dir.resolve("victim");
        CompletableFuture<Void> killer =
                CompletableFuture.runAsync(() -> {
                    try {
                        while (!Files.exists(victim)) {
                            Thread.sleep(20);
                        }
                        // On Linux that is SIGKILL.
                        ProcessHandle.of(Long.parseLong(Files.readString(victim)))
                                .orElseThrow()
                                .destroyForcibly();
                    } catch (IOException | InterruptedException e) {
                        throw new AssertionError(e);
                    }
                });
        Path table = dir.resolve("killed");
        write(table.toString(), "killed_once", Map.of());
        killer.join();
        System.out.println(
                "killed " + describe(table.toString()) + " parts " + count(table.resolve("parts")));
    }

    private void saveObjects() throws IOException, InterruptedException {
        JavaSparkContext context = JavaSparkContext.fromSparkContext(spark.sparkContext());
        List<Point> points = IntStream.range(0, 100).mapToObj(Point::of).toList();
        Path objects = dir.resolve("objects");
        JavaRDD<Point> slowOnce =
                context.parallelize(points, 4)
                        .map(point -> {
                            if (point.id() == 1 && TaskContext.get().attemptNumber() == 0) {
                                Thread.sleep(60_000);
                            }
                            return point;
                        });
        DurableRDD.save(
                slowOnce,
                Point.class,
                DurablePoint.class,
                objects.toString(),
                PartitionOptions.defaults().extents(1 << 20));
        List<Point> saved =
                DurableRDD.open(context, Point.class, DurablePoint.class, objects.toString())
                        .collect();
        // The attempt that was slow may still be removing what it wrote.
        for (int i = 0; i < 2000 && count(objects.resolve("parts")) > 4; i++) {
            Thread.sleep(50);
        }
        System.out.println(
                "objects " + saved.equals(points) + " parts " + count(objects.resolve("parts")));
    }

    private void copyToNode() throws IOException {
        String remote = "remote:" + dir.resolve("remote");
        Path copies = dir.resolve("copies");
        write(remote, "abs", Map.of("pmem", dir.resolve("writing").toString()));
        Dataset<Row> rows =
                spark.read().format("terrace").option("pmem", copies.toString()).load(remote);
        System.out.println(
                "remote " + rows.filter("length(text) >= 0").count() + " copies " + count(copies));
    }
}
