package dev.terrace.objects.placement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.SegmentStore;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.StoredSize;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What the probe measures, and that it leaves nothing behind.
class ProbeTest {
    /// Disk-backed in most places, so that direct reads are tried.
    @TempDir Path directory;

    /// Segments in memory, whose reads take a while, and which fail from some write on.
    private static final class SlowSegments implements SegmentStore {
        static final long READ_NANOS = 100_000;
        final Map<String, byte[]> all = new TreeMap<>();
        int writesLeft = Integer.MAX_VALUE;

        @Override
        public String name() {
            return "slow";
        }

        @Override
        public void write(String segment, byte[] bytes) throws IOException {
            all.put(segment, bytes.clone());
            if (writesLeft-- <= 0) {
                throw new IOException("cannot be reached");
            }
        }

        @Override
        public byte[] read(String segment, long from, int length) throws IOException {
            if (!all.containsKey(segment)) {
                throw new NoSuchFileException(segment);
            }
            for (long until = System.nanoTime() + READ_NANOS; System.nanoTime() < until; ) {
                Thread.onSpinWait();
            }
            return Arrays.copyOfRange(all.get(segment), (int) from, (int) from + length);
        }

        @Override
        public void delete(String segment) {
            all.remove(segment);
        }

        @Override
        public List<String> list() {
            return List.copyOf(all.keySet());
        }
    }

    private long filesLeft(Path in) throws IOException {
        try (Stream<Path> files = Files.walk(in)) {
            return files.count() - 1;
        }
    }

    /// A directory in memory, or, where there is none, on a disk.
    private Path memory() throws IOException {
        Path shared = Path.of("/dev/shm");
        boolean isThere =
                Files.isDirectory(shared) && Files.getFileStore(shared).type().equals("tmpfs");
        return Files.createTempDirectory(isThere ? shared : directory, "terrace-test");
    }

    @Test
    void allTiersAreMeasuredAndNothingIsLeft() throws IOException {
        Path memory = memory();
        SlowSegments segments = new SlowSegments();
        PoolOptions options =
                PoolOptions.defaults()
                        .pmem(1 << 20)
                        .disk(StorageTier.HDD, directory)
                        .disk(StorageTier.SSD, memory)
                        .remote(segments, 1000);
        DeviceReport report = new Probe(memory, options, Probe.Effort.QUICK, 0).run();
        assertEquals(0, filesLeft(memory));
        Files.delete(memory);
        assertEquals(0, filesLeft(directory));
        assertEquals(List.of(), segments.list());

        Map<StorageTier, Device> devices = new EnumMap<>(StorageTier.class);
        report.devices().forEach(device -> devices.put(device.tier(), device));
        assertEquals(
                Set.of(
                        StorageTier.DRAM,
                        StorageTier.PMEM,
                        StorageTier.SSD,
                        StorageTier.HDD,
                        StorageTier.REMOTE),
                devices.keySet());
        assertEquals(1 << 20, devices.get(StorageTier.PMEM).capacityBytes());
        assertEquals(1000, devices.get(StorageTier.REMOTE).capacityBytes());
        for (Device device : report.devices()) {
            assertEquals(
                    List.of(8L, 64L, 4096L, 1L << 20),
                    device.read().points().stream().map(CostTable.Point::bytes).toList());
            assertTrue(
                    device.read().nanos(1 << 20) > 0 && device.write().nanos(1 << 20) > 0,
                    device::toString);
        }
        assertTrue(
                devices.get(StorageTier.REMOTE).read().nanos(8) >= SlowSegments.READ_NANOS,
                report::toString);
        for (StorageTier disk : List.of(StorageTier.SSD, StorageTier.HDD)) {
            String note = devices.get(disk).note();
            assertTrue(
                    note.matches(
                            ".*(direct reads of blocks of [0-9]+ bytes added for 100 % of"
                                    + " reads|cached: .*)"),
                    note);
        }
        Path file = directory.resolve("devices.json");
        report.write(file);
        assertEquals(report, DeviceReport.read(file));
    }

    @Test
    void nothingIsLeftWhenItFails() throws IOException {
        SlowSegments segments = new SlowSegments();
        segments.writesLeft = 3;
        Path memory = memory();
        Probe probe =
                new Probe(memory, PoolOptions.defaults().remote(segments), Probe.Effort.QUICK, 0);
        assertThrows(Exception.class, probe::run);
        assertEquals(0, filesLeft(memory));
        Files.delete(memory);
        assertEquals(List.of(), segments.list());
        Probe nowhere =
                new Probe(
                        directory,
                        PoolOptions.defaults().disk(StorageTier.SSD, directory.resolve("none")),
                        Probe.Effort.QUICK,
                        0);
        assertThrows(IOException.class, nowhere::run);
        assertEquals(0, filesLeft(directory));
        assertThrows(
                IllegalArgumentException.class,
                () -> new Probe(directory, PoolOptions.defaults(), Probe.Effort.QUICK, 2));
    }

    /// What StoredSize says beside what a pool says is in use.
    @Test
    void sizesAreThoseThatAPoolHas() throws IOException {
        SlowSegments segments = new SlowSegments();
        PoolOptions options =
                PoolOptions.defaults()
                        .extents(8 << 20)
                        .disk(StorageTier.SSD, directory)
                        .remote(segments);
        try (Pool pool = Pool.open(directory.resolve("pool"), options)) {
            FieldSpec[] fields = {
                FieldSpec.of("number", FieldKind.LONG),
                FieldSpec.of("bytes", FieldKind.BYTES).orNull()
            };
            List<FieldSpec> onPmem = Arrays.asList(fields);
            // What is made once for all is made.
            for (StorageTier tier : List.of(StorageTier.PMEM, StorageTier.SSD)) {
                pool.transact(() ->
                        IntStream.range(0, 4)
                                .forEach(_ -> pool.create(Probed.on(tier)).setBytes(new byte[8])));
            }
            for (int size : new int[] {7, 8, 100, 5000, 100_000}) {
                assertGrows(
                        pool,
                        StorageTier.PMEM,
                        size,
                        StoredSize.record(onPmem) + StoredSize.inPmem(size),
                        0);
                List<FieldSpec> onSsd =
                        onPmem.stream().map(field -> field.on(StorageTier.SSD)).toList();
                assertGrows(
                        pool,
                        StorageTier.SSD,
                        size,
                        StoredSize.record(onSsd),
                        StoredSize.onDisk(size));
            }
        }
    }

    private static void assertGrows(Pool pool, StorageTier tier, int size, long pmem, long disk) {
        pool.transact(() -> pool.create(Probed.on(tier)).setBytes(new byte[size]));
        List<Long> before = pool.statistics().used();
        pool.transact(() ->
                IntStream.range(0, 3)
                        .forEach(_ -> pool.create(Probed.on(tier)).setBytes(new byte[size])));
        List<Long> after = pool.statistics().used();
        assertEquals(3 * pmem, after.get(0) - before.get(0), tier + " " + size);
        assertEquals(3 * disk, after.get(1) - before.get(1), tier + " " + size);
    }

    /// A program that probes, for longer than a test waits.
    static final class Prober {
        private Prober() {}

        public static void main(String[] arguments) throws IOException {
            new Probe(Path.of(arguments[0]), PoolOptions.defaults(), Probe.Effort.THOROUGH, 0)
                    .run();
        }
    }

    /// Whether it has made the last of its files, until seconds later.
    private boolean isAtWork() throws IOException {
        try (Stream<Path> scratch = Files.list(directory)) {
            return scratch.anyMatch(each -> Files.exists(each.resolve("disk-0")));
        }
    }

    @Test
    void nothingIsLeftWhenTheProgramIsEnded() throws IOException, InterruptedException {
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-XX:TieredStopAtLevel=1",
                                "-cp",
                                System.getProperty("java.class.path"),
                                Prober.class.getName(),
                                directory.toString())
                        .redirectErrorStream(true)
                        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                        .start();
        try {
            while (!isAtWork() && process.isAlive()) {
                Thread.sleep(20);
            }
            assertTrue(process.isAlive(), "it has made its files, and measures");
            process.destroy();
            assertTrue(process.waitFor(60, TimeUnit.SECONDS));
            assertEquals(0, filesLeft(directory));
        } finally {
            process.destroyForcibly();
        }
    }
}
