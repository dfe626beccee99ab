package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQuery;
import org.apache.spark.sql.streaming.Trigger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// What SPARK.md shows compiles and runs: its Java, its SQL and its Python are read from here and
/// from `src/test/resources`.
@ExtendWith(LocalSpark.class)
class SparkExamplesTest {
    private static final Path DOCUMENT = Path.of("..", "docs", "SPARK.md");

    @TempDir private Path dir;

    @Test
    void tablesInJava(SparkSession spark, JavaSparkContext context) throws IOException {
        String path = dir.toString();
        Dataset<Row> people =
                spark.range(0, 1000).selectExpr("id", "id % 90 age", "repeat('pixel ', 100) image");
        // <tables>
        people.write().format("terrace").option("tier.image", "DISK").mode("append").save(path);

        Dataset<Row> saved = spark.read().format("terrace").load(path);
        long adults = saved.filter("age >= 18").count();
        // </tables>
        assertEquals(792, adults);
        // <versions>
        Dataset<Row> first = spark.read().format("terrace").option("versionAsOf", 1).load(path);
        Snapshots.Removed removed = Snapshots.vacuum(context, path, Duration.ofDays(7));
        // </versions>
        assertEquals(1000, first.count());
        assertEquals(new Snapshots.Removed(0, 0), removed);
        // <optimization>
        Optimization.Rewritten rewritten =
                Optimization.defaults().targetBytes(256 << 20).sortedBy("age").run(spark, path);
        // </optimization>
        assertEquals(1, rewritten.partsAfter());
    }

    @Test
    void streamsInJava(SparkSession spark) throws Exception {
        String path = dir.resolve("table").toString();
        String checkpoint = dir.resolve("checkpoint").toString();
        Path in = Files.createDirectory(dir.resolve("in"));
        Files.writeString(in.resolve("1.json"), "{\"id\":1}\n");
        Dataset<Row> events = spark.readStream().schema("id LONG").json(in.toString());
        // <streams>
        StreamingQuery query =
                events.writeStream()
                        .format("terrace")
                        .option("checkpointLocation", checkpoint)
                        .start(path);
        // </streams>
        try {
            query.processAllAvailable();
            assertEquals(1, spark.read().format("terrace").load(path).count());
        } finally {
            query.stop();
        }
        String target = dir.resolve("target").toString();
        String copied = dir.resolve("copied").toString();
        // <source>
        Dataset<Row> rows =
                spark.readStream().format("terrace").option("maxFilesPerTrigger", 100).load(path);

        StreamingQuery copy =
                rows.writeStream()
                        .format("terrace")
                        .option("checkpointLocation", copied)
                        .trigger(Trigger.AvailableNow())
                        .start(target);
        // </source>
        copy.awaitTermination();
        assertEquals(1, spark.read().format("terrace").load(target).count());
    }

    @Test
    void objectsInJava(JavaSparkContext context) throws IOException {
        String directory = dir.toString();
        List<Point> list = IntStream.range(0, 1000).mapToObj(Point::of).toList();
        // <objects>
        JavaRDD<Point> points = context.parallelize(list, 4);
        DurableRDD.save(
                points, Point.class, DurablePoint.class, directory, PartitionOptions.defaults());

        DurableRDD<Point, DurablePoint> saved =
                DurableRDD.open(context, Point.class, DurablePoint.class, directory);
        long even = saved.filter(point -> point.id() % 2 == 0).count();
        JavaRDD<Double> sums =
                saved.mapInPlace(cursor -> {
                    double[] row = new double[3];
                    double sum = 0;
                    while (cursor.next()) {
                        cursor.get().copyRow(row);
                        sum += row[0];
                    }
                    return List.of(sum).iterator();
                });
        // </objects>
        assertEquals(500, even);
        assertEquals(999 * 500, sums.reduce(Double::sum));
    }

    @Test
    void tablesInSql(SparkSession spark) throws IOException {
        assertEquals("[[Berta,2]]", run(spark, "people.sql").collectAsList().toString());
        run(spark, "changes.sql");
        assertEquals(
                "[[Anna,2], [Berta,3], [Clara,4], [Dora,null]]",
                spark.sql(
                                "SELECT name, age FROM terrace.`"
                                        + dir.resolve("people")
                                        + "` ORDER BY 1")
                        .collectAsList()
                        .toString());
        assertEquals("[[0,0]]", run(spark, "optimize.sql").collectAsList().toString());
        assertEquals(
                4, spark.read().format("terrace").load(dir.resolve("people").toString()).count());
    }

    @Test
    void partitionsInSql(SparkSession spark) throws IOException {
        try {
            assertEquals(
                    "[[Clara,2030-01-02]]",
                    run(spark, "partitions.sql").collectAsList().toString());
        } finally {
            spark.conf().unset("spark.sql.sources.partitionOverwriteMode");
        }
    }

    /// The result of the last statement of a file.
    private Dataset<Row> run(SparkSession spark, String file) throws IOException {
        // The catalog is there once the format has been used; a cluster's configuration names it.
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        Dataset<Row> last = spark.emptyDataFrame();
        for (String statement : resource(file).replaceAll("--.*", "").split(";")) {
            if (!statement.isBlank()) {
                last = spark.sql(statement.replace("/data/", dir + "/"));
            }
        }
        return last;
    }

    @Test
    void tablesInPython() throws Exception {
        String python = System.getProperty("terrace.python", "python3");
        assumeTrue(
                canImportPyspark(python),
                "no module pyspark of "
                        + python
                        + ": -Dterrace.python=... names an interpreter that has it");
        Path script = Path.of("src", "test", "resources", "people.py").toAbsolutePath();
        Path output = dir.resolve("output");
        ProcessBuilder builder =
                new ProcessBuilder(python, script.toString(), dir.resolve("people").toString())
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile());
        String classPath = StandaloneCluster.classPath();
        builder.environment()
                .putAll(
                        Map.of(
                                "JAVA_HOME",
                                System.getProperty("java.home"),
                                "PYSPARK_SUBMIT_ARGS",
                                "--master local[1] --conf spark.ui.enabled=false"
                                        + " --driver-class-path "
                                        + classPath
                                        + " pyspark-shell"));
        Process process = builder.start();
        try {
            assertTrue(
                    process.waitFor(60, TimeUnit.SECONDS),
                    () -> "it does not end: " + read(output));
        } finally {
            process.descendants().forEach(ProcessHandle::destroyForcibly);
            process.destroyForcibly();
        }
        assertEquals(0, process.exitValue(), () -> read(output));
        assertTrue(read(output).contains("[Row(name='Berta', age=2)]"), () -> read(output));
    }

    private static boolean canImportPyspark(String python) throws InterruptedException {
        try {
            Process process =
                    new ProcessBuilder(python, "-c", "import pyspark")
                            .redirectErrorStream(true)
                            .start();
            process.getInputStream().readAllBytes();
            return process.waitFor() == 0;
        } catch (IOException e) {
            return false;
        }
    }

    private static String read(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            return e.toString();
        }
    }

    private static String resource(String name) throws IOException {
        return Files.readString(Path.of("src", "test", "resources", name));
    }

    @Test
    void theDocumentQuotesWhatRuns() throws IOException {
        String document = Files.readString(DOCUMENT);
        long blocks = document.lines().filter(line -> line.matches("```(java|sql|python)")).count();
        assertEquals(
                11,
                blocks,
                "each block of the page is one of these: five files, six parts of this source");
        for (String name :
                List.of(
                        "people.sql",
                        "partitions.sql",
                        "changes.sql",
                        "optimize.sql",
                        "people.py")) {
            assertTrue(
                    document.contains(resource(name).strip()),
                    () -> "SPARK.md does not quote " + name);
        }
        String source =
                Files.readString(
                        Path.of(
                                "src",
                                "test",
                                "java",
                                "dev",
                                "terrace",
                                "objects",
                                "spark",
                                "SparkExamplesTest.java"));
        for (String name :
                List.of("tables", "versions", "optimization", "streams", "source", "objects")) {
            int from = source.indexOf("// <" + name + ">\n");
            String quoted =
                    source.substring(
                                    source.indexOf('\n', from) + 1,
                                    source.indexOf("// </" + name + ">"))
                            .stripIndent()
                            .strip();
            assertTrue(
                    document.contains(quoted),
                    () -> "SPARK.md does not quote the part " + name + ":\n" + quoted);
        }
    }
}
