package dev.terrace.objects;

import dev.terrace.objects.internal.store.SegmentStore;
import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// How a pool is opened, or made.
///
/// @param readOnly whether it is only read: that needs no lock, any number of processes may, also
///   while another one writes
/// @param create whether it is made if it is not there
/// @param pmemBytesMax how long its file in persistent memory may become
/// @param extentBytes by how much files become longer, a power of two from 1 MiB to 1 GiB; for
///   files that are made
/// @param disks its disks; none: one, an SSD, in the pool's own directory
/// @param remote its remote tier; null: it has none
/// @param patience for how long a read of a pool that is only read is repeated while another
///   process commits all the time, and for how long a thread waits for a transaction whose own
///   thread only waits
/// @param pmemChecksums whether strings, arrays and other values outside of their records get
///   checksums in persistent memory, from now on and for all who write; false: as it was
public record PoolOptions(
        boolean readOnly,
        boolean create,
        long pmemBytesMax,
        long extentBytes,
        List<Disk> disks,
        @Nullable Remote remote,
        Duration patience,
        boolean pmemChecksums) {
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
                    false);

    /// A disk.
    ///
    /// @param tier [StorageTier#SSD] or [StorageTier#HDD]
    /// @param directory that the disk's file lies in; null: the pool's
    /// @param bytesMax how long that file may become
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
    /// @param segments where its segments are; it stays open for as long as the pool, and whoever
    ///   has opened it closes it
    /// @param bytesMax how many bytes they may take; a compaction may take more for a moment
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
        if (disks.size() > Superblock.DISKS_MAX) {
            throw new IllegalArgumentException(
                    disks.size() + " disks: a pool has at most " + Superblock.DISKS_MAX);
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

    /// To read and write, made if need be, as large as there is room for, with one SSD in the
    /// pool's directory.
    public static PoolOptions defaults() {
        return DEFAULTS;
    }

    /// The same, only to read.
    public PoolOptions toRead() {
        return new PoolOptions(
                true, false, pmemBytesMax, extentBytes, disks, remote, patience, pmemChecksums);
    }

    /// The same, for a pool that must be there.
    public PoolOptions existing() {
        return new PoolOptions(
                readOnly, false, pmemBytesMax, extentBytes, disks, remote, patience, pmemChecksums);
    }

    /// The same, with at most so much persistent memory.
    public PoolOptions pmem(long bytesMax) {
        return new PoolOptions(
                readOnly, create, bytesMax, extentBytes, disks, remote, patience, pmemChecksums);
    }

    /// The same, with files that become longer by so much.
    public PoolOptions extents(long bytes) {
        return new PoolOptions(
                readOnly, create, pmemBytesMax, bytes, disks, remote, patience, pmemChecksums);
    }

    /// The same, whose reads, where it is only read, are repeated for so long while another process
    /// commits all the time; then they throw [PoolBusyException]. So does who has waited for so
    /// long for a transaction whose own thread waits, and does nothing else.
    public PoolOptions patience(Duration time) {
        return new PoolOptions(
                readOnly, create, pmemBytesMax, extentBytes, disks, remote, time, pmemChecksums);
    }

    /// The same, whose values in persistent memory get checksums, as those on disks have. A pool
    /// that was once opened to be written so keeps it; values that are there already get theirs
    /// when they are written or moved. Numbers, references and short values, which lie within
    /// records and collections, have none.
    public PoolOptions withPmemChecksums() {
        return new PoolOptions(
                readOnly, create, pmemBytesMax, extentBytes, disks, remote, patience, true);
    }

    /// The same, with a disk more. A pool's disks are given in the same order each time.
    public PoolOptions disk(StorageTier tier, Path directory, long bytesMax) {
        List<Disk> more = new ArrayList<>(disks);
        more.add(new Disk(tier, directory, bytesMax));
        return new PoolOptions(
                readOnly, create, pmemBytesMax, extentBytes, more, remote, patience, pmemChecksums);
    }

    /// The same, with a disk more that may become as full as it can.
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
                pmemChecksums);
    }

    /// The same, with a remote tier that may become as full as it can.
    public PoolOptions remote(SegmentStore segments) {
        return remote(segments, Long.MAX_VALUE);
    }

    /// What would be another for a pool in a directory that is open than these options say. What
    /// matters only for files that are made is not compared.
    ///
    /// @param hasChecksums whether values that the open pool writes to persistent memory get
    ///   checksums
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

    /// Each who opens a pool may have opened its segments anew.
    private static String name(@Nullable Remote remote) {
        return remote == null
                ? "none"
                : remote.segments.name() + " of " + remote.bytesMax + " bytes";
    }

    List<Disk> disksOrDefault() {
        return disks.isEmpty() ? List.of(new Disk(StorageTier.SSD, null, Long.MAX_VALUE)) : disks;
    }
}
