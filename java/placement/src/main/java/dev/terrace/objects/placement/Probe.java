package dev.terrace.objects.placement;

import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.SegmentStore;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.placement.CostTable.Point;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.stream.Stream;

/// Measures what accesses cost on this machine: C of the paper's section 3.4.
///
/// The probe makes a scratch pool with the tiers of the real pool, and calls the getters and
/// setters of objects on each tier. Their cost when all values are in memory is the *path*. For a
/// disk and a remote tier, the device's time for reading the value is added, for the share of reads
/// that no cache answers. Each write is a durable transaction.
///
/// @param pmem a directory on the persistent memory
/// @param options the pool's disks and remote tier, and how large they may become; scratch files
///   are made beside its own
/// @param effort how long it may take
/// @param cachedShare of reads from disks and the remote tier, how many are answered by a cache:
///   from 0 to 1
public record Probe(Path pmem, PoolOptions options, Effort effort, double cachedShare) {
    /// How often memory is lost, unless the user says otherwise: the paper's example.
    private static final double DRAM_FAILURE = 0.01;

    private static final long EXTENT_BYTES = 8 << 20;

    /// How many samples there are, and of how many sizes.
    public enum Effort {
        /// For a first look, and tests: within a second or two on an SSD.
        QUICK(10_000_000, 5, 20_000, List.of(64, 4096, 1 << 20), 4 << 20),
        /// For figures to decide by: about fifteen seconds a tier.
        THOROUGH(
                500_000_000,
                51,
                1_000_000,
                List.of(16, 64, 256, 1024, 4096, 1 << 14, 1 << 16, 1 << 18, 1 << 20),
                256 << 20);

        private final Stopwatch stopwatch;
        private final List<Integer> sizes;
        private final long fileBytes;

        Effort(long warmNanos, int samples, long sampleNanos, List<Integer> sizes, long fileBytes) {
            stopwatch = new Stopwatch(warmNanos, samples, sampleNanos);
            this.sizes = sizes;
            this.fileBytes = fileBytes;
        }
    }

    /// Checks the share.
    public Probe {
        if (!(cachedShare >= 0 && cachedShare <= 1)) {
            throw new IllegalArgumentException(
                    "a cached share of " + cachedShare + ": it is from 0 to 1");
        }
    }

    /// Measures all tiers. Removes all that it made, also when it fails; and its files, too, when
    /// the program is ended meanwhile.
    ///
    /// @throws IOException if scratch files cannot be made or removed
    public DeviceReport run() throws IOException {
        List<Path> scratch = new CopyOnWriteArrayList<>();
        Thread atEnd = new Thread(() -> deleteAsFarAsPossible(scratch));
        Runtime.getRuntime().addShutdownHook(atEnd);
        try {
            return run(scratch);
        } finally {
            try {
                Runtime.getRuntime().removeShutdownHook(atEnd);
            } catch (IllegalStateException e) {
                // It is at work.
            }
        }
    }

    private static void deleteAsFarAsPossible(List<Path> scratch) {
        for (Path each : scratch) {
            try {
                delete(each);
            } catch (IOException | UncheckedIOException e) {
                System.err.println(each + " cannot be removed: " + e.getMessage());
            }
        }
    }

    private DeviceReport run(List<Path> scratch) throws IOException {
        PoolOptions.Remote remote = options.remote();
        try (ScratchSegments segments =
                remote == null ? null : new ScratchSegments(remote.segments())) {
            Path pool = scratchIn(pmem, scratch);
            PoolOptions own = PoolOptions.defaults().extents(EXTENT_BYTES);
            List<PoolOptions.Disk> disks = disks();
            for (PoolOptions.Disk disk : disks) {
                own =
                        own.disk(
                                disk.tier(),
                                scratchIn(
                                        disk.directory() == null ? pmem : disk.directory(),
                                        scratch));
            }
            own = segments == null ? own : own.remote(segments);
            return new DeviceReport(where(), measure(pool, own, disks));
        } catch (UncheckedIOException e) {
            throw e.getCause();
        } finally {
            for (Path each : scratch) {
                delete(each);
            }
        }
    }

    private static String where() {
        return LocalDate.now()
                + ", JDK "
                + Runtime.version().feature()
                + ", "
                + System.getProperty("os.name")
                + " "
                + System.getProperty("os.arch")
                + ", "
                + Runtime.getRuntime().availableProcessors()
                + " processors";
    }

    /// The first disk of each tier, as pools have them.
    private List<PoolOptions.Disk> disks() {
        List<PoolOptions.Disk> all =
                options.disks().isEmpty()
                        ? List.of(new PoolOptions.Disk(StorageTier.SSD, null, Long.MAX_VALUE))
                        : options.disks();
        return Stream.of(StorageTier.SSD, StorageTier.HDD)
                .flatMap(tier -> all.stream().filter(disk -> disk.tier() == tier).limit(1))
                .toList();
    }

    private static Path scratchIn(Path directory, List<Path> scratch) throws IOException {
        Path made = Files.createTempDirectory(directory, "terrace-probe");
        scratch.add(made);
        return made;
    }

    private static void delete(Path directory) throws IOException {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path each : all.sorted((left, right) -> right.compareTo(left)).toList()) {
                Files.delete(each);
            }
        }
    }

    private List<Device> measure(Path place, PoolOptions own, List<PoolOptions.Disk> disks)
            throws IOException {
        List<Device> devices = new ArrayList<>();
        try (Pool pool = Pool.open(place, own)) {
            devices.add(
                    path(pool, StorageTier.DRAM)
                            .capacity(Runtime.getRuntime().maxMemory())
                            .failure(DRAM_FAILURE));
            devices.add(path(pool, StorageTier.PMEM).capacity(room(pmem, options.pmemBytesMax())));
            for (int i = 0; i < disks.size(); i++) {
                PoolOptions.Disk disk = disks.get(i);
                Path directory = Objects.requireNonNull(own.disks().get(i).directory());
                devices.add(
                        cold(path(pool, disk.tier()), directory)
                                .capacity(room(directory, disk.bytesMax())));
            }
            PoolOptions.Remote scratch = own.remote();
            PoolOptions.Remote remote = options.remote();
            if (scratch != null && remote != null) {
                devices.add(
                        distant(path(pool, StorageTier.REMOTE), scratch.segments())
                                .capacity(remote.bytesMax()));
            }
        }
        return List.copyOf(devices);
    }

    private static long room(Path directory, long most) throws IOException {
        return Math.min(most, Files.getFileStore(directory).getUsableSpace());
    }

    /// A tier as getters and setters see it, when what they read is in memory.
    private Device path(Pool pool, StorageTier tier) {
        List<Point> reads = new ArrayList<>();
        List<Point> writes = new ArrayList<>();
        Random random = new Random(1);
        ObjectType<Probed> type = Probed.on(tier);
        Probed[] numbers = objects(pool, type, Long.BYTES);
        writes.add(
                point(
                        Long.BYTES,
                        effort.stopwatch.median(i -> {
                            numbers[i % numbers.length].setNumber(random.nextLong());
                            return i;
                        })));
        for (Probed each : numbers) {
            each.setNumber(random.nextLong());
        }
        reads.add(
                point(
                        Long.BYTES,
                        effort.stopwatch.median(i -> numbers[i % numbers.length].getNumber())));
        for (int size : effort.sizes) {
            byte[] bytes = new byte[size];
            random.nextBytes(bytes);
            Probed[] objects = objects(pool, type, size);
            pool.transact(() -> {
                for (Probed each : objects) {
                    each.setBytes(bytes);
                }
            });
            writes.add(
                    point(
                            size,
                            effort.stopwatch.median(i -> {
                                objects[i % objects.length].setBytes(bytes);
                                return i;
                            })));
            reads.add(
                    point(
                            size,
                            effort.stopwatch.median(
                                    i -> objects[i % objects.length].getBytes()[i % size])));
            pool.transact(() -> {
                for (Probed each : objects) {
                    each.delete();
                }
            });
        }
        return Device.of(tier, new CostTable(reads), new CostTable(writes))
                .noted("medians of " + effort.stopwatch.samples() + " samples");
    }

    /// As many as make a mebibyte, so that the processor's nearest caches do not hold them all, but
    /// not so many that small ones take long.
    private static Probed[] objects(Pool pool, ObjectType<Probed> type, int size) {
        Probed[] objects = new Probed[Math.clamp((1 << 20) / size, 2, 256)];
        pool.transact(() -> {
            for (int i = 0; i < objects.length; i++) {
                objects[i] = pool.create(type);
            }
        });
        return objects;
    }

    private static Point point(long bytes, double nanos) {
        return new Point(bytes, Math.round(nanos * 10) / 10.0);
    }

    /// Adds what the disk takes for reads that no cache answers.
    private Device cold(Device path, Path directory) throws IOException {
        try (ColdReads reads = new ColdReads(directory.resolve("cold"), effort.fileBytes)) {
            return withReads(
                    path,
                    size -> reads.median(size, effort.stopwatch),
                    "direct reads of blocks of " + reads.block() + " bytes");
        } catch (UnsupportedOperationException e) {
            return path.noted(
                    path.note() + "; cached: " + e.getMessage() + ", so reads are from memory");
        }
    }

    /// Adds what a request takes for reads that no cache answers.
    private Device distant(Device path, SegmentStore segments) throws IOException {
        String name = "probe-" + UUID.randomUUID();
        int bytes = 2 << 20;
        segments.write(name, new byte[bytes]);
        Random random = new Random(1);
        return withReads(
                path,
                size ->
                        effort.stopwatch.median(_ -> {
                            try {
                                return segments.read(name, random.nextInt(bytes - size), size)
                                        .length;
                            } catch (IOException e) {
                                throw new UncheckedIOException(e);
                            }
                        }),
                "requests to " + segments.name());
    }

    /// The time that a device takes to read a value of some bytes.
    private interface DeviceReads {
        double median(int size);
    }

    private Device withReads(Device path, DeviceReads device, String how) {
        List<Point> reads = new ArrayList<>();
        for (Point point : path.read().points()) {
            double outside = (1 - cachedShare) * device.median(Math.toIntExact(point.bytes()));
            reads.add(point(point.bytes(), point.nanos() + outside));
        }
        String note =
                path.note()
                        + "; "
                        + how
                        + " added for "
                        + Math.round(100 * (1 - cachedShare))
                        + " % of reads";
        return Device.of(path.tier(), new CostTable(reads), path.write()).noted(note);
    }
}
