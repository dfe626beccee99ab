package dev.terrace.objects.internal.store;

import dev.terrace.objects.PoolStatistics;
import java.util.ArrayList;
import java.util.List;

/// What has happened to a pool since it was opened, and how much of each tier is in use.
public final class Usage {
    private final Store store;
    private final Allocator pmem;
    private final List<Disk> disks;
    private final boolean readOnly;
    // Changed by who writes.
    private long commits;
    private long rollbacks;
    private long loggedBytes;

    Usage(Store store, Allocator pmem, List<Disk> disks, boolean readOnly) {
        this.store = store;
        this.pmem = pmem;
        this.disks = disks;
        this.readOnly = readOnly;
    }

    /// A commit has happened, of which so many bytes went through the log.
    void committed(long logged) {
        commits++;
        loggedBytes += logged;
    }

    /// A transaction was given up.
    void rolledBack() {
        rollbacks++;
    }

    /// How many commits have happened.
    long commits() {
        return commits;
    }

    /// All of it, as of one commit.
    public PoolStatistics statistics() {
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
            return new PoolStatistics(
                    commits, rollbacks, loggedBytes, List.copyOf(used), List.copyOf(capacity));
        });
    }

    /// Who only reads may not have mapped all extents that there are, or have mapped some that were
    /// given back.
    private long capacity(Allocator of, Region region) {
        int extents = readOnly ? of.extents() : Math.max(of.extents(), region.extents());
        return extents * region.extentBytes();
    }

    /// Bytes of persistent memory that nothing is in, and that it may still grow by.
    public long roomInPmem() {
        return store.alone(() -> {
            store.releaseEmpty(pmem);
            long growth = store.pmem().bytesToGrow();
            return isLimited(growth) ? pmem.freeBytes() + growth : growth;
        });
    }

    /// Bytes of persistent memory, with what it may still grow by.
    public long pmemCapacity() {
        Region region = store.pmem();
        long growth = region.bytesToGrow();
        return isLimited(growth) ? region.extents() * region.extentBytes() + growth : growth;
    }

    private static boolean isLimited(long growth) {
        return growth <= Long.MAX_VALUE / 2;
    }
}
