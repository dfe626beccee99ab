package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Thing;
import dev.terrace.objects.remote.HadoopSegments;
import java.io.EOFException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Tables, saved RDDs and segments in directories of HDFS and of an S3 server.
@ExtendWith(LocalSpark.class)
class RemoteDirectoriesTest {
    private static final int DRIVERS = 2;
    private static final int APPENDS = 3;

    @TempDir private Path here;

    private final SparkSession spark;
    private final String name = "directory-" + UUID.randomUUID();
    private String uri = "";

    RemoteDirectoriesTest(SparkSession spark) {
        this.spark = spark;
    }

    private void use(Servers server) {
        server.settings().forEach(spark.sparkContext().hadoopConfiguration()::set);
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        uri = server.uri(name);
    }

    private void append(long from, long to) {
        spark.range(from, to, 1, 2)
                .selectExpr("id", "id % 10 AS digit", "CAST(id AS STRING) AS text")
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("tier.text", "DISK")
                .option("pmem", here.toString())
                .mode("append")
                .save(uri);
    }

    private Dataset<Row> read() {
        return spark.read().format("terrace").option("pmem", here.toString()).load(uri);
    }

    private void expect(long rows, long sum) {
        Row found = read().selectExpr("count(text)", "sum(id)", "sum(CAST(text AS LONG))").first();
        assertEquals(List.of(rows, sum, sum), List.of(found.get(0), found.get(1), found.get(2)));
    }

    private List<String> names(String directory) throws IOException {
        return new ManifestLog(uri, spark.sparkContext().hadoopConfiguration())
                .root()
                .child(directory)
                .list();
    }

    @ParameterizedTest
    @EnumSource
    void aTableIsWrittenChangedAndRemoved(Servers server) throws IOException {
        use(server);
        String table = "terrace.`" + uri + "`";
        append(0, 100);
        append(100, 200);
        expect(200, 19_900);
        spark.sql("DELETE FROM " + table + " WHERE digit = 4");
        expect(180, 19_900 - 1_980);
        spark.sql("UPDATE " + table + " SET id = -id, text = -id WHERE digit = 3");
        expect(180, 19_900 - 1_980 - 2 * 1_960);
        assertEquals(
                200, spark.read().format("terrace").option("versionAsOf", 2).load(uri).count());
        spark.sql("CALL terrace.system.optimize('" + uri + "')");
        expect(180, 19_900 - 1_980 - 2 * 1_960);
        int parts = names("parts").size();
        // S3 counts seconds.
        Snapshots.vacuum(
                JavaSparkContext.fromSparkContext(spark.sparkContext()),
                uri,
                Duration.ofSeconds(-5));
        assertFalse(names("parts").size() >= parts);
        assertEquals(List.of(1, 0, 0), sizes("manifests", "deletions", "jobs"));
        expect(180, 19_900 - 1_980 - 2 * 1_960);
        spark.sql("INSERT OVERWRITE " + table + " SELECT 7, 7, '7'");
        expect(1, 7);
        spark.sql("DROP TABLE " + table);
        assertEquals(List.of(0, 0, 0), sizes("manifests", "parts", "jobs"));
    }

    private List<Integer> sizes(String... directories) throws IOException {
        List<Integer> sizes = new ArrayList<>();
        for (String directory : directories) {
            sizes.add(names(directory).size());
        }
        return sizes;
    }

    @ParameterizedTest
    @EnumSource
    void queriesThatAppendAtATimeLoseNothing(Servers server) throws Exception {
        use(server);
        append(0, 10);
        List<Callable<Void>> work =
                IntStream.range(0, DRIVERS)
                        .<Callable<Void>>mapToObj(driver ->
                                () -> {
                                    for (int i = 0; i < APPENDS; i++) {
                                        long from = 10 + 10 * (i * DRIVERS + driver);
                                        append(from, from + 10);
                                    }
                                    return null;
                                })
                        .toList();
        try (ExecutorService drivers = Executors.newFixedThreadPool(DRIVERS)) {
            for (Future<Void> one : drivers.invokeAll(work)) {
                one.get();
            }
        }
        long rows = 10 + 10 * DRIVERS * APPENDS;
        expect(rows, rows * (rows - 1) / 2);
        assertEquals(List.of(7, 14, 0), sizes("manifests", "parts", "jobs"));
    }

    @ParameterizedTest
    @EnumSource
    void anRddIsSavedAndReplaced(Servers server) throws IOException {
        use(server);
        JavaSparkContext context = JavaSparkContext.fromSparkContext(spark.sparkContext());
        PartitionOptions options =
                PartitionOptions.defaults().extents(1 << 20).pmem(here.toString());
        for (int round = 0; round < 2; round++) {
            List<Point> points = IntStream.range(round, 50).mapToObj(Point::of).toList();
            PartitionOptions how = round == 0 ? options : options.overwriting();
            DurableRDD.save(
                    context.parallelize(points, 2), Point.class, DurablePoint.class, uri, how);
            assertEquals(
                    points,
                    DurableRDD.open(context, Point.class, DurablePoint.class, uri, options)
                            .collect());
        }
        assertEquals(List.of(2, 4, 0), sizes("manifests", "parts", "jobs"));
    }

    @ParameterizedTest
    @EnumSource
    void aPoolHasItsSegmentsThere(Servers server) throws IOException {
        use(server);
        try (HadoopSegments segments =
                HadoopSegments.open(URI.create(uri), server.configuration())) {
            segments.write("one", new byte[] {1, 2, 3, 4, 5});
            assertArrayEquals(new byte[] {2, 3, 4}, segments.read("one", 1, 3));
            assertThrows(EOFException.class, () -> segments.read("one", 3, 3));
            assertThrows(NoSuchFileException.class, () -> segments.read("two", 0, 1));
            assertThrows(
                    FileAlreadyExistsException.class, () -> segments.write("one", new byte[] {9}));
            segments.delete("one");
            segments.delete("one");
            assertEquals(List.of(), segments.list());
            PoolOptions options = PoolOptions.defaults().extents(1 << 20).remote(segments);
            ObjectType<Thing> type = Thing.on(StorageTier.REMOTE);
            for (int round = 0; round < 3; round++) {
                try (Pool pool = Pool.open(here.resolve("pool"), options)) {
                    Thing thing = pool.root("thing", type).get();
                    if (thing == null) {
                        thing = pool.create(type);
                        pool.root("thing", type).set(thing);
                    } else {
                        assertEquals("round " + (round - 1), thing.getText());
                    }
                    thing.setText("round " + round);
                    assertEquals(List.of(), pool.check().problems());
                }
            }
            assertFalse(segments.list().isEmpty());
        }
    }
}
