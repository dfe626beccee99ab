package dev.terrace.objects.internal.store;

import java.util.BitSet;

/// The parts of all tiers that are in use, new parts of persistent memory, and its extents.
public final class Parts {
    private final Store store;
    private final Region pmem;
    private final Superblock superblock;
    private final Allocator allocator;
    private final boolean readOnly;

    Parts(Store store, Superblock superblock, Allocator allocator, boolean readOnly) {
        this.store = store;
        this.pmem = store.pmem();
        this.superblock = superblock;
        this.allocator = allocator;
        this.readOnly = readOnly;
        for (int extent = 0; extent < pmem.extents(); extent++) {
            addExtent(extent);
        }
    }

    /// Whether the part at `offset` of disk `index` is in use; of persistent memory if `index` is
    /// -1. For the remote tier, [Buffers.Place#REMOTE], `offset` is the place of a value's record
    /// in persistent memory.
    public boolean isAllocated(int index, long offset) {
        return store.allocatorOf(index).chunks().isAllocated(offset)
                && (index != Buffers.Place.REMOTE || store.remote().isValue(offset));
    }

    /// Bytes of the part at `offset` of disk `index`; of persistent memory if `index` is -1.
    public long sizeOf(int index, long offset) {
        return index == Buffers.Place.REMOTE
                ? store.remote().length(offset)
                : store.allocatorOf(index).chunks().sizeOf(offset);
    }

    /// The offset of the first part in use of persistent memory from `offset` on; -1 if there is
    /// none.
    public long nextAllocated(long offset) {
        return nextAllocated(offset, -1L);
    }

    /// The same for parts of some sizes, a set of [#sizeBit(long)].
    public long nextAllocated(long offset, long sizes) {
        if (readOnly) {
            followExtents();
        }
        return allocator.chunks().next(offset, sizes);
    }

    /// The bit in sets of sizes for parts of so many bytes, and for others of the same size class.
    public static long sizeBit(long bytes) {
        return SizeClasses.bit(bytes);
    }

    /// A bit for each of the next 63 slots behind the one at `offset` of persistent memory that is
    /// in use; bit 0 is the next slot.
    public long slotsAhead(long offset) {
        return allocator.chunks().ahead(offset);
    }

    /// Takes note of extents that the writer has added.
    synchronized void followExtents() {
        while (allocator.chunks().extents() < pmem.getLong(Superblock.EXTENTS_AT)) {
            addExtent(allocator.chunks().extents());
        }
    }

    /// The offset of the first part in use of disk `index` from `offset` on; -1 if there is none.
    public long nextOnDisk(int index, long offset) {
        return store.allocatorOf(index).chunks().next(offset);
    }

    private void addExtent(int extent) {
        long map =
                extent * pmem.extentBytes()
                        + (extent == 0 ? Superblock.LOG_AT + superblock.logBytes() : 0);
        allocator.addExtent(map, pmem.within(map) + ChunkMap.mapBytes(pmem.extentBytes()));
    }

    /// Adds an extent to persistent memory.
    void grow() {
        // The file never shrinks, so it must not grow for a transaction that cannot commit.
        store.changes().requireSmallEnough();
        pmem.grow();
        addExtent(pmem.extents() - 1);
        pmem.putLong(Superblock.EXTENTS_AT, pmem.extents());
        pmem.flush(Superblock.EXTENTS_AT, Long.BYTES);
        pmem.fence();
    }

    /// Allocates zeros in persistent memory, after a header. The region grows if it must.
    long allocate(long bytes, int type) {
        allocator.requireFits(bytes);
        long offset = allocator.allocate(bytes, type);
        if (offset == Store.NONE && releaseEmpty(allocator)) {
            offset = allocator.allocate(bytes, type);
        }
        if (offset == Store.NONE && allocator.isAvoiding()) {
            // A value that needs room takes precedence over compaction.
            allocator.avoid(new BitSet());
            offset = allocator.allocate(bytes, type);
        }
        if (offset == Store.NONE) {
            grow();
            offset = allocator.allocate(bytes, type);
        }
        return begin(offset, bytes);
    }

    /// Allocates zeros for a buffer, after a header, without growing the region.
    long allocateWithin(long bytes) {
        return begin(allocator.allocate(bytes, Headers.BUFFER), bytes);
    }

    private long begin(long offset, long bytes) {
        if (offset == Store.NONE) {
            throw new StoreFailure.Full(pmem.name() + " has no room for " + bytes + " bytes");
        }
        pmem.zero(offset + Headers.BYTES, bytes - Headers.BYTES);
        store.changes().allocated(offset, bytes);
        return offset;
    }

    /// Gives back chunks that are divided into slots and are empty, and returns whether there were
    /// any. It is a separate commit, because the present transaction writes to these chunks before
    /// it commits.
    boolean releaseEmpty(Allocator of) {
        store.changes().requireWhole();
        Overlay released = new Overlay();
        of.releaseEmpty(released);
        if (released.size() == 0) {
            return false;
        }
        store.changes().publish(released);
        of.forgetIndex();
        return true;
    }
}
