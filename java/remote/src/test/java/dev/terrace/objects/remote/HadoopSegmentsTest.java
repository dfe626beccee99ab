package dev.terrace.objects.remote;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.AllocatorContractTest;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolFormatException;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Thing;
import java.io.EOFException;
import java.io.IOException;
import java.net.URI;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/// The remote tier on a local directory, by way of Hadoop: what every allocator does, and what a
/// store of segments does.
class HadoopSegmentsTest extends AllocatorContractTest {
    private final List<HadoopSegments> opened = new ArrayList<>();

    private boolean fails;

    private HadoopSegments open() throws IOException {
        HadoopSegments segments =
                fails ? nowhere() : HadoopSegments.open(dir.resolve("segments").toUri());
        opened.add(segments);
        return segments;
    }

    /// A file system that cannot be reached: nobody listens at that port.
    private static HadoopSegments nowhere() throws IOException {
        Configuration configuration = new Configuration();
        configuration.setInt("ipc.client.connect.max.retries", 0);
        return HadoopSegments.open(URI.create("hdfs://127.0.0.1:1/segments"), configuration);
    }

    @AfterEach
    void close() throws IOException {
        for (HadoopSegments segments : opened) {
            segments.close();
        }
    }

    @Override
    protected StorageTier tier() {
        return StorageTier.REMOTE;
    }

    @Override
    protected PoolOptions options(PoolOptions defaults, long bytesMax) throws IOException {
        return defaults.remote(open(), bytesMax);
    }

    private List<Path> files() throws IOException {
        try (Stream<Path> files = Files.list(dir.resolve("segments"))) {
            return files.toList();
        }
    }

    @Override
    protected void damage() throws IOException {
        for (Path file : files()) {
            Files.write(file, damaged(Files.readAllBytes(file)));
        }
    }

    @Override
    protected void failDevice(boolean doesFail) {
        fails = doesFail;
    }

    @Test
    void aSegmentIsWrittenOnceAndReadInParts() throws IOException {
        HadoopSegments segments = open();
        assertEquals(List.of(), segments.list());
        segments.write("one", new byte[] {1, 2, 3, 4, 5});
        segments.write("two", new byte[0]);
        assertEquals(List.of("one", "two"), segments.list().stream().sorted().toList());
        assertEquals(2, files().size(), "no files of checksums");
        assertArrayEquals(new byte[] {2, 3, 4}, segments.read("one", 1, 3));
        assertArrayEquals(new byte[0], segments.read("one", 5, 0));
        assertThrows(EOFException.class, () -> segments.read("one", 3, 3));
        assertThrows(NoSuchFileException.class, () -> segments.read("three", 0, 1));
        assertThrows(FileAlreadyExistsException.class, () -> segments.write("one", new byte[] {9}));
        assertArrayEquals(new byte[] {1, 2, 3, 4, 5}, segments.read("one", 0, 5));
        segments.delete("one");
        segments.delete("one");
        assertThrows(NoSuchFileException.class, () -> segments.read("one", 0, 1));
        assertEquals(List.of("two"), segments.list());
        segments.write("one", new byte[] {9});
        assertArrayEquals(new byte[] {9}, segments.read("one", 0, 1));
    }

    @Test
    void whatCannotBeReachedSaysSo() throws IOException {
        try (HadoopSegments none = nowhere()) {
            IOException read = assertThrows(IOException.class, () -> none.read("one", 0, 1));
            assertFalse(read instanceof NoSuchFileException, read::toString);
            assertThrows(IOException.class, () -> none.write("two", new byte[] {1}));
            assertThrows(IOException.class, () -> none.delete("two"));
            assertThrows(IOException.class, none::list);
        }
    }

    @Test
    void anotherDirectoryIsNotTakenForThePools() throws IOException {
        PoolOptions options = PoolOptions.defaults().extents(1 << 20);
        try (Pool pool = Pool.open(dir, options.remote(open()))) {
            pool.create(Thing.on(StorageTier.REMOTE)).setBytes(new byte[100]);
        }
        try (HadoopSegments other = HadoopSegments.open(dir.resolve("other").toUri())) {
            PoolFormatException wrong =
                    assertThrows(
                            PoolFormatException.class, () -> Pool.open(dir, options.remote(other)));
            assertTrue(wrong.getMessage().contains(other.name()), wrong.getMessage());
        }
    }
}
