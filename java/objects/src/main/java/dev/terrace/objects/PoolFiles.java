package dev.terrace.objects;

import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.MappedRegion;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Seal;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Superblock;
import dev.terrace.objects.internal.store.Watch;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.channels.OverlappingFileLockException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.UUID;
import org.jspecify.annotations.Nullable;

/// The files of an open pool: `pool` in persistent memory, `disk-0` and so on, and `lock`, on which
/// the writing process holds a lock. No other code ever opens `lock`, because the system releases a
/// process's lock when the process closes any channel of the file.
final class PoolFiles {
    private static final String POOL = "pool";
    private static final long LOG_BYTES_MAX = 1 << 20;

    private final Path directory;
    private final Arena arena;
    private final Store store;
    private final @Nullable FileChannel lock;
    private final Duration patience;

    private PoolFiles(
            Path directory,
            Arena arena,
            Store store,
            @Nullable FileChannel lock,
            Duration patience) {
        this.directory = directory;
        this.arena = arena;
        this.store = store;
        this.lock = lock;
        this.patience = patience;
    }

    /// Opens the files in a directory, and creates them if needed.
    static PoolFiles open(Path directory, PoolOptions options) throws IOException {
        PoolOpenEvent event = new PoolOpenEvent();
        event.begin();
        requirePool(directory, options);
        FileChannel lock = options.readOnly() ? null : lock(directory);
        Arena arena = Arena.ofShared();
        boolean done = false;
        try {
            Path file = directory.resolve(POOL);
            if (!Files.exists(file)) {
                make(directory, options);
            }
            PoolFiles files =
                    new PoolFiles(
                            directory,
                            arena,
                            openStore(directory, options, arena),
                            lock,
                            options.patience());
            done = true;
            event.pool = file.toString();
            event.readOnly = options.readOnly();
            event.pmemBytes = files.store.pmem().extents() * files.store.pmem().extentBytes();
            event.commit();
            return files;
        } finally {
            if (!done) {
                arena.close();
                if (lock != null) {
                    lock.close();
                }
            }
        }
    }

    /// This comes before the lock, so that no lock file is made in a directory that is not a pool.
    private static void requirePool(Path directory, PoolOptions options) {
        Path file = directory.resolve(POOL);
        if (Files.isDirectory(file) || !options.create() && !Files.exists(file)) {
            throw new PoolFormatException(
                    directory + " has no file " + POOL + ", so it is no pool: look at the path");
        }
    }

    private static FileChannel lock(Path directory) throws IOException {
        FileChannel channel =
                FileChannel.open(
                        directory.resolve("lock"),
                        StandardOpenOption.CREATE,
                        StandardOpenOption.WRITE);
        FileLock lock = null;
        try {
            lock = channel.tryLock();
        } catch (OverlappingFileLockException e) {
            throw new PoolLockedException(
                    directory + " is open in this process, by another copy of this library", e);
        } finally {
            if (lock == null) {
                channel.close();
            }
        }
        if (lock == null) {
            throw new PoolLockedException(
                    directory + " is open in another process: end it, or open the pool to read");
        }
        return channel;
    }

    /// Creates an empty pool, under another name until it is complete.
    private static void make(Path directory, PoolOptions options) throws IOException {
        Path unfinished = directory.resolve(POOL + ".new");
        Files.deleteIfExists(unfinished);
        Files.createFile(unfinished);
        int shift = Long.numberOfTrailingZeros(options.extentBytes());
        long logBytes = Math.min(LOG_BYTES_MAX, options.extentBytes() / 16);
        long secret = new SecureRandom().nextLong();
        try (Arena arena = Arena.ofShared()) {
            MappedRegion pmem =
                    new MappedRegion(unfinished, shift, 0, options.pmemBytesMax(), false, arena);
            new Superblock(UUID.randomUUID(), secret, shift, logBytes).format(pmem);
        } catch (StoreFailure.Full e) {
            Files.deleteIfExists(unfinished);
            throw e;
        }
        Files.move(unfinished, directory.resolve(POOL), StandardCopyOption.ATOMIC_MOVE);
        // If the rename were lost, the next creation of a pool would delete the file.
        MappedRegion.syncNames(directory);
    }

    private static Store openStore(Path directory, PoolOptions options, Arena arena)
            throws IOException {
        Path file = directory.resolve(POOL);
        byte[] first;
        try (var in = Files.newInputStream(file)) {
            first = in.readNBytes(Superblock.BYTES);
        }
        Superblock superblock = Superblock.read(file.toString(), first, options.readOnly());
        ByteBuffer words = ByteBuffer.wrap(first).order(ByteOrder.LITTLE_ENDIAN);
        long extents = words.getLong((int) Superblock.EXTENTS_AT);
        if (extents < 1 || extents > Files.size(file) >>> superblock.extentShift()) {
            throw new PoolDamagedException(
                    file
                            + " has "
                            + Files.size(file)
                            + " bytes, and should have "
                            + extents
                            + " extents of "
                            + (1L << superblock.extentShift())
                            + ": was it truncated?");
        }
        if (!options.readOnly()) {
            Seal.requireNone(file.toString(), words);
            requireZeros(file, extents << superblock.extentShift(), superblock.extentShift());
        }
        MappedRegion pmem =
                new MappedRegion(
                        file,
                        superblock.extentShift(),
                        (int) extents,
                        options.pmemBytesMax(),
                        options.readOnly(),
                        arena);
        Watch watch = options.readOnly() ? Watch.none() : watch(file, pmem);
        pmem.watchedBy(watch, 0);
        Store.finishCommit(superblock, pmem, options.readOnly());
        List<Store.TierRegion> disks = new ArrayList<>();
        for (PoolOptions.Disk disk : options.disksOrDefault()) {
            MappedRegion region = openDisk(directory, options, disk, disks.size(), pmem, arena);
            region.watchedBy(watch, 1 + disks.size());
            disks.add(new Store.TierRegion(Medium.named(disk.tier()), region));
        }
        requireNoMore(directory, disks.size(), pmem);
        PoolOptions.Remote remote = options.remote();
        Store.RemoteTier remoteTier =
                remote == null
                        ? null
                        : new Store.RemoteTier(
                                new ProgramSegments(remote.segments()), remote.bytesMax());
        Store store = new Store(superblock, pmem, disks, remoteTier, options.readOnly());
        if (!options.readOnly()) {
            Superblock.upgrade(pmem);
            if (options.pmemChecksums()) {
                Feature.CHECKED_PMEM.addTo(pmem);
            }
        }
        store.setPatience(options.patience());
        return store;
    }

    private static Watch watch(Path file, MappedRegion pmem) {
        MemorySegment first = pmem.extent(0);
        return Watch.of(
                file,
                first.asSlice(Superblock.WATCH_AT, Watch.BYTES),
                first.asSlice(Superblock.SEQUENCE_AT, Long.BYTES));
    }

    /// The file may have one more extent than the pool knows, if the process ended while it grew.
    /// Such an extent holds zeros. Otherwise the number of extents is damaged, and the bytes must
    /// not be overwritten.
    private static void requireZeros(Path file, long from, int extentShift) throws IOException {
        boolean zeros = Files.size(file) - from <= 1L << extentShift;
        try (InputStream in = Files.newInputStream(file)) {
            in.skipNBytes(from);
            byte[] part = new byte[1 << 16];
            for (int length = in.read(part); zeros && length > 0; length = in.read(part)) {
                zeros = Arrays.equals(part, 0, length, new byte[length], 0, length);
            }
        }
        if (!zeros) {
            throw new PoolDamagedException(
                    file
                            + " holds more than the superblock says: its number of extents is"
                            + " damaged");
        }
    }

    private static MappedRegion openDisk(
            Path directory,
            PoolOptions options,
            PoolOptions.Disk disk,
            int number,
            MappedRegion pmem,
            Arena arena)
            throws IOException {
        Path file =
                (disk.directory() == null ? directory : disk.directory()).resolve("disk-" + number);
        long extents = extentsOfDisk(pmem, number);
        if (!Files.exists(file)) {
            if (extents > 0) {
                // The file may be lost, or its directory was not named, which looks the same.
                throw new PoolFormatException(
                        file
                                + " is missing: name the directory that it is in as the pool's disk"
                                + " "
                                + number);
            }
            if (!options.readOnly()) {
                Files.createFile(file);
                MappedRegion.syncNames(file.toAbsolutePath().getParent());
            }
        }
        return mapDisk(file, number, options.readOnly(), disk.bytesMax(), pmem, arena);
    }

    /// Maps the used part of a disk, which may shrink meanwhile if another process compacts the
    /// pool.
    private static MappedRegion mapDisk(
            Path file, int number, boolean readOnly, long bytesMax, MappedRegion pmem, Arena arena)
            throws IOException {
        int shift = Long.numberOfTrailingZeros(pmem.extentBytes());
        while (true) {
            long extents = extentsOfDisk(pmem, number);
            try {
                return new MappedRegion(file, shift, (int) extents, bytesMax, readOnly, arena);
            } catch (StoreFailure.Damaged | IOException e) {
                if (extentsOfDisk(pmem, number) == extents) {
                    throw e;
                }
            }
        }
    }

    /// Values on a disk that was not named could not be found.
    private static void requireNoMore(Path directory, int disks, MappedRegion pmem) {
        for (int number = disks; number < Superblock.DISKS_MAX; number++) {
            if (extentsOfDisk(pmem, number) != 0) {
                throw new PoolFormatException(
                        directory
                                + " has values on disk "
                                + number
                                + ", and disks are counted from 0 and "
                                + disks
                                + " of them named: name them all, in the same order each time");
            }
        }
    }

    private static long extentsOfDisk(MappedRegion pmem, int number) {
        return pmem.getLong(Superblock.DISKS_AT + number * Superblock.DISK_BYTES);
    }

    Path directory() {
        return directory;
    }

    /// How long reads are repeated.
    Duration patience() {
        return patience;
    }

    /// Whether the pool is read-only.
    boolean isReadOnly() {
        return lock == null;
    }

    Store store() {
        return store;
    }

    void close() {
        store.close();
        arena.close();
        if (lock != null) {
            try {
                lock.close();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }
}
