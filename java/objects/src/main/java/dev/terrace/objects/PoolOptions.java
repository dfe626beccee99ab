package dev.terrace.objects;

import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The options for opening or creating a pool.
///
/// @param readOnly whether the pool is read-only: reading needs no lock, so any number of processes
///   may read, also while another one writes
/// @param create whether the pool is created if it does not exist
/// @param pmemBytesMax the greatest length of its file in persistent memory
/// @param extentBytes the steps in which files grow, a power of two from 1 MiB to 1 GiB; for new
///   files only
/// @param disks its disks; if there are none, the pool has an SSD in its own directory
/// @param remote its remote tier, or null
/// @param patience how long a read of a read-only pool is repeated while another process commits
///   all the time, and how long a thread waits for a transaction whose thread only waits
/// @param pmemChecksums whether strings, arrays and other values outside of their records get
///   checksums in persistent memory, from now on and for all programs that write; false: the pool
///   keeps its setting
/// @param jmx whether the open pool has a [PoolMXBean]
public record PoolOptions(
        boolean readOnly,
        boolean create,
        long pmemBytesMax,
        long extentBytes,
        List<Disk> disks,
        @Nullable Remote remote,
        Duration patience,
        boolean pmemChecksums,
        boolean jmx) {
    /// How many disks a pool has at most.
    public static final int DISKS_MAX = Superblock.DISKS_MAX;

    private static final long EXTENT_BYTES_MIN = 1 << 20;
    private static final long EXTENT_BYTES_MAX = 1 << 30;
    private static final PoolOptions DEFAULTS =
            new PoolOptions(
                    false,
                    true,
                    Long.MAX_VALUE,
                    64 << 20,
                    List.of(),
                    null,
                    Duration.ofSeconds(10),
                    false,
                    false);

    /// A disk.
    ///
    /// @param tier [StorageTier#SSD] or [StorageTier#HDD]
    /// @param directory the directory of the disk's file; null: the pool's
    /// @param bytesMax the greatest length of that file
    public record Disk(StorageTier tier, @Nullable Path directory, long bytesMax) {
        /// Checks the tier.
        public Disk {
            if (tier != StorageTier.SSD && tier != StorageTier.HDD) {
                throw new IllegalArgumentException("a disk is an SSD or an HDD, not " + tier);
            }
            requirePositive(bytesMax, "a disk");
        }
    }

    /// A remote tier.
    ///
    /// @param segments the store of its segments; the caller closes it, after the pool
    /// @param bytesMax the greatest number of bytes that they take; a compaction may take more for
    ///   a moment
    public record Remote(SegmentStore segments, long bytesMax) {
        /// Checks the number.
        public Remote {
            requirePositive(bytesMax, "a remote tier");
        }
    }

    /// Checks the numbers.
    public PoolOptions {
        disks = List.copyOf(disks);
        if (Long.bitCount(extentBytes) != 1
                || extentBytes < EXTENT_BYTES_MIN
                || extentBytes > EXTENT_BYTES_MAX) {
            throw new IllegalArgumentException(
                    "extents of "
                            + extentBytes
                            + " bytes: they are a power of two from "
                            + EXTENT_BYTES_MIN
                            + " to "
                            + EXTENT_BYTES_MAX);
        }
        if (disks.size() > DISKS_MAX) {
            throw new IllegalArgumentException(
                    disks.size() + " disks: a pool has at most " + DISKS_MAX);
        }
        requirePositive(pmemBytesMax, "persistent memory");
        if (patience.isNegative()) {
            throw new IllegalArgumentException(
                    "a patience of " + patience + ": it is not negative");
        }
    }

    private static void requirePositive(long bytesMax, String of) {
        if (bytesMax <= 0) {
            throw new IllegalArgumentException(
                    of + " of at most " + bytesMax + " bytes: a limit is positive");
        }
    }

    /// Opens for reading and writing, creates the pool if needed, lets it grow as long as there is
    /// room, and keeps one SSD in the pool's directory.
    public static PoolOptions defaults() {
        return DEFAULTS;
    }

    /// The same, read-only.
    public PoolOptions toRead() {
        return new PoolOptions(
                true,
                false,
                pmemBytesMax,
                extentBytes,
                disks,
                remote,
                patience,
                pmemChecksums,
                jmx);
    }

    /// The same, for a pool that must exist.
    public PoolOptions existing() {
        return new PoolOptions(
                readOnly,
                false,
                pmemBytesMax,
                extentBytes,
                disks,
                remote,
                patience,
                pmemChecksums,
                jmx);
    }

    /// The same, with at most so many bytes of persistent memory.
    public PoolOptions pmem(long bytesMax) {
        return new PoolOptions(
                readOnly,
                create,
                bytesMax,
                extentBytes,
                disks,
                remote,
                patience,
                pmemChecksums,
                jmx);
    }

    /// The same, with files that grow in steps of so many bytes.
    public PoolOptions extents(long bytes) {
        return new PoolOptions(
                readOnly, create, pmemBytesMax, bytes, disks, remote, patience, pmemChecksums, jmx);
    }

    /// The same, with another patience. Reads of a read-only pool are repeated for so long while
    /// another process commits all the time; then they throw [PoolBusyException]. So does a thread
    /// that has waited for so long for a transaction whose own thread does nothing but wait.
    public PoolOptions patience(Duration time) {
        return new PoolOptions(
                readOnly,
                create,
                pmemBytesMax,
                extentBytes,
                disks,
                remote,
                time,
                pmemChecksums,
                jmx);
    }

    /// The same, with checksums for values in persistent memory, as values on disks have them. The
    /// pool keeps this setting once it has been opened for writing with it. Existing values get
    /// their checksums when they are written or moved. Numbers, references and short values, which
    /// lie within records and collections, have no checksums.
    public PoolOptions withPmemChecksums() {
        return new PoolOptions(
                readOnly, create, pmemBytesMax, extentBytes, disks, remote, patience, true, jmx);
    }

    /// The same, with a [PoolMXBean] for programs that watch this one, as long as the pool is open.
    /// A pool that is open already gets its bean then. If there can be none, the pool is opened
    /// without it, and a warning says why.
    public PoolOptions withJmx() {
        return new PoolOptions(
                readOnly,
                create,
                pmemBytesMax,
                extentBytes,
                disks,
                remote,
                patience,
                pmemChecksums,
                true);
    }

    /// The same, with one more disk. Give a pool's disks in the same order each time.
    public PoolOptions disk(StorageTier tier, Path directory, long bytesMax) {
        List<Disk> more = new ArrayList<>(disks);
        more.add(new Disk(tier, directory, bytesMax));
        return new PoolOptions(
                readOnly,
                create,
                pmemBytesMax,
                extentBytes,
                more,
                remote,
                patience,
                pmemChecksums,
                jmx);
    }

    /// The same, with one more disk, which may be filled.
    public PoolOptions disk(StorageTier tier, Path directory) {
        return disk(tier, directory, Long.MAX_VALUE);
    }

    /// The same, with a remote tier whose segments may take so many bytes.
    public PoolOptions remote(SegmentStore segments, long bytesMax) {
        return new PoolOptions(
                readOnly,
                create,
                pmemBytesMax,
                extentBytes,
                disks,
                new Remote(segments, bytesMax),
                patience,
                pmemChecksums,
                jmx);
    }

    /// The same, with a remote tier of any size.
    public PoolOptions remote(SegmentStore segments) {
        return remote(segments, Long.MAX_VALUE);
    }

    /// The differences between these options and those of an open pool in a directory. Options that
    /// apply only to new files are not compared, nor is whether the pool has a bean.
    ///
    /// @param hasChecksums whether the open pool writes checksums to persistent memory
    List<String> differences(PoolOptions open, Path pool, boolean hasChecksums) {
        List<String> differences = new ArrayList<>();
        compare("pmem", open.pmemBytesMax, pmemBytesMax, differences);
        compare("disks", open.placed(pool), placed(pool), differences);
        compare("remote", name(open.remote), name(remote), differences);
        compare("patience", open.patience, patience, differences);
        if (pmemChecksums && !readOnly) {
            compare("pmemChecksums", hasChecksums, true, differences);
        }
        return differences;
    }

    private static void compare(
            String option, Object open, Object wanted, List<String> differences) {
        if (!open.equals(wanted)) {
            differences.add(option + " was " + open + ", and not " + wanted);
        }
    }

    private List<Disk> placed(Path pool) {
        return disksOrDefault().stream()
                .map(disk ->
                        new Disk(
                                disk.tier,
                                place(disk.directory == null ? pool : disk.directory),
                                disk.bytesMax))
                .toList();
    }

    private static Path place(Path directory) {
        try {
            return directory.toRealPath();
        } catch (IOException notThere) {
            return directory.toAbsolutePath().normalize();
        }
    }

    /// Two stores of the same segments are equal, because each opening of a pool may open them
    /// anew.
    private static String name(@Nullable Remote remote) {
        return remote == null
                ? "none"
                : remote.segments.name() + " of " + remote.bytesMax + " bytes";
    }

    List<Disk> disksOrDefault() {
        return disks.isEmpty() ? List.of(new Disk(StorageTier.SSD, null, Long.MAX_VALUE)) : disks;
    }
}
