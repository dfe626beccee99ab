package dev.terrace.objects.internal.store;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/// Counts of events since a pool was opened, and the space in use on each tier.
public final class Usage {
    private final Store store;
    private final Allocator pmem;
    private final List<Disk> disks;
    private final boolean readOnly;

    // Only the writing thread changes these, and all threads may read them.
    private final AtomicLong commits = new AtomicLong();
    private final AtomicLong rollbacks = new AtomicLong();
    private final AtomicLong loggedBytes = new AtomicLong();

    // Any thread that reads changes these, or writes.
    private final AtomicLong segmentReads = new AtomicLong();
    private final AtomicLong segmentReadBytes = new AtomicLong();
    private final AtomicLong segmentWrites = new AtomicLong();
    private final AtomicLong segmentWrittenBytes = new AtomicLong();

    /// What has happened.
    public record Counts(long commits, long rollbacks, long logBytes) {}

    /// Requests to the remote tier, and the bytes of its values that are kept in memory.
    public record Requests(
            long reads, long readBytes, long writes, long writtenBytes, long cachedBytes) {}

    /// A tier: its name, the bytes in use there, and the bytes of its files.
    public record Tier(String name, long used, long capacity) {}

    Usage(Store store, Allocator pmem, List<Disk> disks, boolean readOnly) {
        this.store = store;
        this.pmem = pmem;
        this.disks = disks;
        this.readOnly = readOnly;
    }

    /// Counts a commit that wrote so many bytes to the log.
    void committed(long logged) {
        add(commits, 1);
        add(loggedBytes, logged);
    }

    /// Counts a transaction that was rolled back.
    void rolledBack() {
        add(rollbacks, 1);
    }

    /// Adds to a number that only this thread changes: a setter has no time for more.
    private static void add(AtomicLong to, long more) {
        to.setOpaque(to.getPlain() + more);
    }

    /// Counts a value of so many bytes that was read from the remote tier.
    void segmentRead(long bytes) {
        segmentReads.incrementAndGet();
        segmentReadBytes.addAndGet(bytes);
    }

    /// Counts a segment of so many bytes that was written to the remote tier.
    void segmentWritten(long bytes) {
        segmentWrites.incrementAndGet();
        segmentWrittenBytes.addAndGet(bytes);
    }

    /// Counts since the pool was opened. No thread waits for them.
    public Counts counts() {
        return new Counts(commits.getOpaque(), rollbacks.getOpaque(), loggedBytes.getOpaque());
    }

    /// The same of requests to the remote tier.
    public Requests requests() {
        return new Requests(
                segmentReads.get(),
                segmentReadBytes.get(),
                segmentWrites.get(),
                segmentWrittenBytes.get(),
                store.remote().cache.bytes());
    }

    /// All tiers as of one commit: persistent memory, then each disk, then the remote one, if there
    /// is one. In the process that writes, this is a consistent read, which waits for a transaction
    /// of another thread only if it was overtaken often.
    public List<Tier> tiers() {
        Supplier<List<Tier>> work =
                () -> {
                    List<Tier> tiers = new ArrayList<>(List.of(tier("pmem", pmem, store.pmem())));
                    for (Disk disk : disks) {
                        String kind = disk.tier().name().toLowerCase(Locale.ROOT);
                        tiers.add(
                                tier(
                                        "disk-" + (tiers.size() - 1) + " " + kind,
                                        disk.allocator(),
                                        disk.region()));
                    }
                    Remote remote = store.remote();
                    if (remote.isThere() || remote.bytes() > 0) {
                        tiers.add(new Tier("remote", remote.liveBytes(), remote.bytes()));
                    }
                    return List.copyOf(tiers);
                };
        return readOnly ? store.alone(work) : store.read(work);
    }

    private Tier tier(String name, Allocator of, Region region) {
        return new Tier(name, of.chunks().usedBytes(), capacity(of, region));
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
