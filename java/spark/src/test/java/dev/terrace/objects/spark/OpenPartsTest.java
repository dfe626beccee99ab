package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolClosedException;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.IntStream;
import org.apache.spark.api.java.JavaSparkContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// Parts that stay open between tasks, and when they no longer do.
@ExtendWith(LocalSpark.class)
class OpenPartsTest {
    private static final PoolOptions OPTIONS = PoolOptions.defaults().extents(1 << 20);

    /// Bytes of a part's files.
    private static final long PART = 1 << 20;

    private static final long MANY = 1 << 30;

    @TempDir private Path dir;

    private final OpenParts parts = new OpenParts();

    private Path pool(String name, boolean isSealed) throws IOException {
        Path place = dir.resolve(name);
        try (Pool pool = Pool.open(place, OPTIONS)) {
            if (isSealed) {
                pool.seal();
            }
        }
        return place;
    }

    /// Opens a part, as a task does, and closes it.
    private Pool read(Path place, long bytesMax) throws IOException {
        try (Pool pool = parts.open(new PartStore.Place(place, null), OPTIONS.toRead(), bytesMax)) {
            return pool;
        }
    }

    private static void expectClosed(Pool pool) {
        assertThrows(PoolClosedException.class, pool::check);
    }

    @AfterEach
    void letGo() {
        parts.letGoOfAll();
        assertEquals(0, parts.bytes());
    }

    @Test
    void theNextTaskFindsItOpen() throws IOException {
        Path place = pool("a", true);
        Pool pool = read(place, MANY);
        assertEquals(List.of(), pool.check().problems());
        assertSame(pool, read(place, MANY));
        assertEquals(PART, parts.bytes());
        parts.letGoOfGone();
        assertEquals(PART, parts.bytes());
        parts.letGoOfAll();
        expectClosed(pool);
    }

    @Test
    void theLastOnesAreKeptUpToTheMaximum() throws IOException {
        List<Path> places = List.of(pool("a", true), pool("b", true), pool("c", true));
        Pool a = read(places.get(0), 2 * PART);
        Pool b = read(places.get(1), 2 * PART);
        read(places.get(0), 2 * PART);
        Pool c = read(places.get(2), 2 * PART);
        assertEquals(2 * PART, parts.bytes());
        expectClosed(b);
        assertSame(a, read(places.get(0), 2 * PART));
        assertSame(c, read(places.get(2), 2 * PART));
        assertEquals(0, read(places.get(1), 2 * PART).statistics().commits());
        assertEquals(2 * PART, parts.bytes());
        expectClosed(read(places.get(1), PART - 1));
        assertEquals(0, parts.bytes(), "a smaller maximum holds for all");
    }

    /// A part that does not fit is not kept, and the others stay.
    @Test
    void aPartThatIsTooLongIsNotKept() throws IOException {
        Path place = pool("a", true);
        Pool small = read(place, 2 * PART);
        Path large = dir.resolve("large");
        try (Pool pool = Pool.open(large, OPTIONS.extents(4 << 20))) {
            pool.seal();
        }
        expectClosed(read(large, 2 * PART));
        assertEquals(PART, parts.bytes());
        assertSame(small, read(place, 2 * PART));
    }

    /// A part that a task still reads is closed by that task.
    @Test
    void whatATaskReadsStaysOpen() throws IOException {
        Path place = pool("a", true);
        try (Pool pool = parts.open(new PartStore.Place(place, null), OPTIONS.toRead(), MANY)) {
            PartStore.deleteTree(place);
            parts.letGoOfGone();
            assertEquals(0, parts.bytes());
            assertEquals(List.of(), pool.check().problems());
        }
    }

    @Test
    void whatMayChangeIsNotKept() throws IOException {
        expectClosed(read(pool("a", false), MANY));
    }

    @Test
    void anotherFileInItsPlaceIsOpenedAnew() throws IOException {
        Path place = pool("a", true);
        Pool before = read(place, MANY);
        byte[] bytes = Files.readAllBytes(place.resolve("pool"));
        PartStore.deleteTree(place);
        pool("a", true);
        assertNotSame(before, read(place, MANY));
        expectClosed(before);
        bytes[20] ^= 1;
        Files.write(place.resolve("pool"), bytes);
        assertThrows(PoolDamagedException.class, () -> read(place, MANY));
        assertEquals(0, parts.bytes());
    }

    /// A task may still read a part whose copy was removed and brought again: that one is not kept
    /// as if it were the new one.
    @Test
    void aPoolOfARemovedFileIsNotKeptForTheNewOne() throws IOException {
        Path place = pool("a", true);
        Pool before = parts.open(new PartStore.Place(place, null), OPTIONS.toRead(), MANY);
        PartStore.deleteTree(place);
        pool("a", true);
        // The process shares what it has open.
        assertSame(before, read(place, MANY));
        before.close();
        assertNotSame(before, read(place, MANY));
        expectClosed(before);
    }

    @Test
    void whatCannotBeOpenedLeavesNothingOpen() throws IOException {
        Path place = pool("a", true);
        Pool before = read(place, MANY);
        PartStore.deleteTree(place);
        assertThrows(PoolFormatException.class, () -> read(place, MANY));
        expectClosed(before);
        assertEquals(0, parts.bytes());
    }

    /// Two tables may lead to one part, with other options.
    @Test
    void otherOptionsOpenItAnew() throws IOException {
        Path place = pool("a", true);
        Pool before = read(place, MANY);
        PoolOptions other =
                OPTIONS.toRead().disk(StorageTier.SSD, Files.createDirectory(dir.resolve("d")));
        try (Pool pool = parts.open(new PartStore.Place(place, null), other, MANY)) {
            assertNotSame(before, pool);
        }
        expectClosed(before);
    }

    /// The pools under a directory that this process has mapped.
    private static List<String> mapped(Path under) throws IOException {
        return Files.readAllLines(Path.of("/proc/self/maps")).stream()
                .filter(line -> line.contains(under.toString()))
                .map(line -> line.substring(line.indexOf('/')))
                .filter(file -> file.contains("/pool"))
                .distinct()
                .toList();
    }

    /// Of jobs of Spark: their parts stay mapped, and no longer once they are removed.
    @Test
    void partsOfJobsAreKeptAndLetGo(JavaSparkContext context)
            throws IOException, InterruptedException {
        String saved = dir.resolve("rdd").toString();
        for (int i = 0; i < 2; i++) {
            List<Point> points = IntStream.range(i, i + 100).mapToObj(Point::of).toList();
            DurableRDD.save(
                    context.parallelize(points, 3),
                    Point.class,
                    DurablePoint.class,
                    saved,
                    PartitionOptions.defaults().extents(1 << 20).overwriting());
            for (int job = 0; job < 2; job++) {
                assertEquals(
                        points,
                        DurableRDD.open(context, Point.class, DurablePoint.class, saved).collect());
                assertEquals(3 * (i + 1), mapped(dir).size());
            }
        }
        assertTrue(OpenParts.bytesKept() > 0);
        Snapshots.vacuum(context, saved, Duration.ZERO);
        assertEquals(3, mapped(dir).size());
        // Nobody says so to other processes, which look now and then.
        PartStore.deleteTree(dir.resolve("rdd"));
        for (int look = 0; look < 600 && !mapped(dir).isEmpty(); look++) {
            Thread.sleep(100);
        }
        assertEquals(List.of(), mapped(dir));
    }
}
