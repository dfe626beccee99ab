package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.TerraceException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.SparkContext;
import org.apache.spark.SparkException;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Encoders;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import scala.jdk.javaapi.CollectionConverters;

/// RDDs of durable objects.
@ExtendWith(LocalSpark.class)
class DurableRDDTest {
    private static final PartitionOptions SMALL = PartitionOptions.defaults().extents(1 << 20);

    /// Where a task saves something: it is given no more than a class.
    private static volatile Path other;

    @TempDir private Path dir;

    private static List<Point> points(int from, int to) {
        return IntStream.range(from, to).mapToObj(Point::of).toList();
    }

    private void save(JavaRDD<Point> rdd, PartitionOptions options) throws IOException {
        DurableRDD.save(rdd, Point.class, DurablePoint.class, dir.toString(), options);
    }

    private DurableRDD<Point, DurablePoint> open(JavaSparkContext context) throws IOException {
        return DurableRDD.open(context, Point.class, DurablePoint.class, dir.toString());
    }

    private List<String> parts() throws IOException {
        try (var files = Files.list(dir.resolve("parts"))) {
            return files.map(path -> path.getFileName().toString()).toList();
        }
    }

    @Test
    void whatWasSavedIsThereInItsPartitions(JavaSparkContext context) throws IOException {
        save(context.parallelize(points(0, 1000), 3), SMALL);
        DurableRDD<Point, DurablePoint> saved = open(context);
        assertEquals(3, saved.getNumPartitions());
        var rdd = saved.rdd();
        assertEquals(
                Hosts.local(),
                CollectionConverters.asJava(rdd.preferredLocations(rdd.partitions()[0])));
        assertEquals(1000, saved.size());
        assertTrue(saved.bytes() > 1000 * 3 * Double.BYTES);
        assertEquals(points(0, 1000), saved.collect());
        assertEquals(3, parts().size());
    }

    @Test
    void elementsAreCopiesThatMayBeCachedAndShuffled(JavaSparkContext context) throws IOException {
        save(context.parallelize(points(0, 300), 2), SMALL);
        JavaRDD<Point> cached = open(context).cache();
        assertEquals(300, cached.count());
        assertEquals(points(0, 300), cached.collect());
        JavaRDD<Point> shuffled = cached.repartition(4);
        assertEquals(new HashSet<>(points(0, 300)), new HashSet<>(shuffled.collect()));
        assertEquals(100, cached.groupBy(point -> point.id() % 100).count());
        cached.unpersist();
    }

    @Test
    void workInPlaceSeesEachObjectOnce(JavaSparkContext context) throws IOException {
        save(context.parallelize(points(0, 1000), 3), SMALL);
        List<Double> sums =
                open(context)
                        .<Double>mapInPlace(points -> {
                            double[] row = new double[3];
                            double sum = 0;
                            while (points.next()) {
                                points.get().copyRow(row);
                                sum += row[0];
                            }
                            return List.of(sum).iterator();
                        })
                        .collect();
        assertEquals(3, sums.size());
        assertEquals(999 * 1000 / 2.0, sums.stream().mapToDouble(Double::doubleValue).sum());
    }

    @Test
    void aDatasetIsSavedAsAnRdd(SparkSession spark, JavaSparkContext context) throws IOException {
        JavaRDD<Point> rdd =
                spark.range(0, 10, 1, 2)
                        .as(Encoders.LONG())
                        .javaRDD()
                        .map(id -> Point.of(id.intValue()));
        save(rdd, SMALL);
        assertEquals(points(0, 10), open(context).collect());
    }

    @Test
    void emptyPartitionsMakeNoPool(JavaSparkContext context) throws IOException {
        save(context.parallelize(points(0, 2), 5), SMALL);
        assertEquals(2, open(context).getNumPartitions());
        save(context.parallelize(List.of(), 2), SMALL.overwriting());
        assertEquals(0, open(context).count());
    }

    @Test
    void nothingIsReplacedUnlessThatIsWanted(JavaSparkContext context) throws IOException {
        save(context.parallelize(points(0, 5), 1), SMALL);
        assertThrows(
                FileAlreadyExistsException.class,
                () -> save(context.parallelize(points(0, 6), 1), SMALL));
        DurableRDD<Point, DurablePoint> before = open(context);
        save(context.parallelize(points(5, 10), 1), SMALL.overwriting());
        assertEquals(points(5, 10), open(context).collect());
        assertEquals(points(0, 5), before.collect());
    }

    @Test
    void filesLieInTheDirectoriesThatTheOptionsName(
            JavaSparkContext context, @TempDir Path pmem, @TempDir Path disk) throws IOException {
        save(
                context.parallelize(points(0, 100), 1),
                SMALL.pmem(pmem.toString()).disk(disk.toString()));
        assertEquals(points(0, 100), open(context).collect());
        assertFalse(Files.exists(dir.resolve("parts")));
        for (Path place : List.of(pmem, disk)) {
            try (var files = Files.walk(place, 2)) {
                String wanted = place == pmem ? "pool" : "disk-0";
                assertEquals(1, files.filter(file -> file.endsWith(wanted)).count());
            }
        }
    }

    @Test
    void anAttemptThatFailsLeavesNothingAndAnotherCounts(JavaSparkContext context)
            throws IOException {
        JavaRDD<Point> flaky =
                context.parallelize(points(0, 1000), 2)
                        .map(point -> {
                            if (point.id() % 500 == 400 && TaskContext.get().attemptNumber() < 2) {
                                throw new IllegalStateException(
                                        "attempt " + TaskContext.get().attemptNumber());
                            }
                            return point;
                        });
        save(flaky, SMALL);
        assertEquals(points(0, 1000), open(context).collect());
        assertEquals(2, parts().size());
    }

    @Test
    void aJobThatFailsLeavesNothing(JavaSparkContext context) throws IOException {
        save(context.parallelize(points(0, 10), 1), SMALL);
        List<String> before = parts();
        JavaRDD<Point> failing =
                context.parallelize(points(0, 1000), 2)
                        .map(point -> {
                            if (point.id() == 900) {
                                throw new IllegalStateException("no");
                            }
                            return point;
                        });
        assertThrows(SparkException.class, () -> save(failing, SMALL.overwriting()));
        assertEquals(points(0, 10), open(context).collect());
        assertEquals(before, parts());
    }

    @Test
    void whatIsNotThereOrOfAnotherClassIsSaid(JavaSparkContext context) throws IOException {
        String message =
                assertThrows(FileNotFoundException.class, () -> open(context)).getMessage();
        assertTrue(message.contains(dir.toString()), message);
        save(context.parallelize(points(0, 5), 1), SMALL);
        message =
                assertThrows(
                                IllegalArgumentException.class,
                                () ->
                                        DurableRDD.open(
                                                context,
                                                Node.class,
                                                DurableNode.class,
                                                dir.toString()))
                        .getMessage();
        assertTrue(
                message.contains(Point.class.getName()) && message.contains(Node.class.getName()),
                message);
    }

    @Test
    void elementsThatLeadToOthersOfTheirClassAreRefused(JavaSparkContext context) {
        JavaRDD<Node> nodes =
                context.parallelize(List.of(1, 2), 1)
                        .map(number -> new Node(number, new Node(-number, null)));
        String message =
                assertThrows(
                                SparkException.class,
                                () ->
                                        DurableRDD.save(
                                                nodes,
                                                Node.class,
                                                DurableNode.class,
                                                dir.toString(),
                                                SMALL))
                        .getMessage();
        assertTrue(message.contains("which are elements"), message);
    }

    @Test
    void aRemoteDirectoryIsCopiedToTheNode(JavaSparkContext context, @TempDir Path here)
            throws IOException {
        String remote = "remote:" + dir.resolve("points");
        PartitionOptions options =
                SMALL.pmem(here.resolve("pmem").toString()).disk(here.resolve("disk").toString());
        DurableRDD.save(
                context.parallelize(points(0, 100), 2),
                Point.class,
                DurablePoint.class,
                remote,
                options);
        for (PartitionOptions reading :
                List.of(options, SMALL.pmem(here.resolve("other").toString()))) {
            DurableRDD<Point, DurablePoint> saved =
                    DurableRDD.open(context, Point.class, DurablePoint.class, remote, reading);
            assertEquals(points(0, 100), saved.collect());
            assertEquals(points(0, 100), saved.collect());
        }
        try (var files = Files.list(here.resolve("other"))) {
            assertEquals(2, files.count());
        }
    }

    @Test
    void aVacuumRemovesWhatNothingLeadsTo(JavaSparkContext context) throws IOException {
        save(context.parallelize(points(0, 10), 2), SMALL);
        save(context.parallelize(points(10, 20), 1), SMALL.overwriting());
        assertEquals(3, parts().size());
        assertEquals(
                new Snapshots.Removed(0, 0),
                Snapshots.vacuum(context, dir.toString(), Duration.ofHours(1)));
        // What a driver leaves that is killed.
        ManifestLog log = new ManifestLog(dir.toString(), context.hadoopConfiguration());
        PartStore store = new PartStore(log.root(), SMALL, context.hadoopConfiguration());
        store.create(WriteJob.partName(WriteJob.begin(log, store).id(), 0, 1)).pool().close();
        assertEquals(4, parts().size());
        assertEquals(
                new Snapshots.Removed(1, 3),
                Snapshots.vacuum(context, dir.toString(), Duration.ofSeconds(-1)));
        assertEquals(1, parts().size());
        assertEquals(points(10, 20), open(context).collect());
        assertEquals(
                new Snapshots.Removed(0, 0),
                Snapshots.vacuum(context, dir.toString(), Duration.ofSeconds(-1)));
    }

    @Test
    void ofTwoWhoSaveAtATimeOneIsTold(JavaSparkContext context) throws IOException {
        JavaRDD<Point> slow =
                context.parallelize(points(0, 10), 1)
                        .map(point -> {
                            if (point.id() == 0) {
                                DurableRDD.save(
                                        JavaSparkContext.fromSparkContext(
                                                        SparkContext.getOrCreate())
                                                .parallelize(points(5, 6), 1),
                                        Point.class,
                                        DurablePoint.class,
                                        other.toString(),
                                        SMALL);
                            }
                            return point;
                        });
        other = dir;
        assertThrows(CommitConflictException.class, () -> save(slow, SMALL));
        assertEquals(points(5, 6), open(context).collect());
        assertEquals(1, parts().size());
    }

    @Test
    void aDamagedManifestIsNamed(JavaSparkContext context) throws IOException {
        save(context.parallelize(points(0, 5), 1), SMALL);
        Path manifest = dir.resolve("manifests").resolve("0000000000000000001");
        byte[] bytes = Files.readAllBytes(manifest);
        for (int at : new int[] {0, 18, 30, bytes.length - 1}) {
            byte[] damaged = bytes.clone();
            damaged[at] ^= 1;
            Files.write(manifest, damaged);
            String message = assertThrows(TerraceException.class, () -> open(context)).getMessage();
            assertTrue(message.contains(manifest.toString()), message);
        }
        Files.write(manifest, Arrays.copyOf(bytes, 20));
        assertThrows(PoolDamagedException.class, () -> open(context));
        Files.write(manifest, bytes);
        assertEquals(points(0, 5), open(context).collect());
    }
}
