package dev.terrace.objects.internal.store;

import java.util.ArrayList;
import java.util.List;

/// Counts of events since a pool was opened, and the space in use on each tier.
public final class Usage {
    private final Store store;
    private final Allocator pmem;
    private final List<Disk> disks;
    private final boolean readOnly;
    // Only the writing thread changes these.
    private long commits;
    private long rollbacks;
    private long loggedBytes;

    /// What has happened, and what is in use.
    ///
    /// @param used bytes in use: in persistent memory, then on each disk, then on the remote tier,
    ///   if there is one
    /// @param capacity bytes of the files: in persistent memory, then of each disk, then of all
    ///   segments
    public record Totals(
            long commits, long rollbacks, long logBytes, List<Long> used, List<Long> capacity) {}

    Usage(Store store, Allocator pmem, List<Disk> disks, boolean readOnly) {
        this.store = store;
        this.pmem = pmem;
        this.disks = disks;
        this.readOnly = readOnly;
    }

    /// Counts a commit that wrote so many bytes to the log.
    void committed(long logged) {
        commits++;
        loggedBytes += logged;
    }

    /// Counts a transaction that was rolled back.
    void rolledBack() {
        rollbacks++;
    }

    /// The number of commits.
    long commits() {
        return commits;
    }

    /// All counts, as of one commit.
    public Totals totals() {
        return store.alone(() -> {
            List<Long> used = new ArrayList<>(List.of(pmem.usedBytes()));
            List<Long> capacity = new ArrayList<>(List.of(capacity(pmem, store.pmem())));
            for (Disk disk : disks) {
                used.add(disk.allocator().usedBytes());
                capacity.add(capacity(disk.allocator(), disk.region()));
            }
            Remote remote = store.remote();
            if (remote.isThere() || remote.bytes() > 0) {
                used.add(remote.liveBytes());
                capacity.add(remote.bytes());
            }
            return new Totals(
                    commits, rollbacks, loggedBytes, List.copyOf(used), List.copyOf(capacity));
        });
    }

    /// A read-only process may not have mapped all extents, or may have mapped some that were given
    /// back.
    private long capacity(Allocator of, Region region) {
        int extents =
                readOnly
                        ? of.chunks().extents()
                        : Math.max(of.chunks().extents(), region.extents());
        return extents * region.extentBytes();
    }

    /// Free bytes of persistent memory, and bytes by which it may still grow.
    public long roomInPmem() {
        return store.alone(() -> {
            store.parts().releaseEmpty(pmem);
            long growth = store.pmem().bytesToGrow();
            return isLimited(growth) ? pmem.freeBytes() + growth : growth;
        });
    }

    /// Bytes of persistent memory, and bytes by which it may still grow.
    public long pmemCapacity() {
        Region region = store.pmem();
        long growth = region.bytesToGrow();
        return isLimited(growth) ? region.extents() * region.extentBytes() + growth : growth;
    }

    private static boolean isLimited(long growth) {
        return growth <= Long.MAX_VALUE / 2;
    }
}
