package dev.terrace.objects.internal.store;

import java.util.BitSet;
import java.util.function.LongSupplier;
import org.jspecify.annotations.Nullable;

/// The parts of all tiers that are in use, new parts of persistent memory, and its extents.
public final class Parts {
    private final Store store;
    private final Region pmem;
    private final Superblock superblock;
    private final Allocator allocator;
    private final boolean readOnly;

    /// The chunks at which a walk looks: those with slots of some sizes, and those with columns of
    /// some types.
    public static final class Wanted {
        static final Wanted ALL = new Wanted(-1L);

        private long sizes;

        /// The types of columns; null stands for all.
        private final @Nullable BitSet types;

        /// No chunks yet.
        public Wanted() {
            types = new BitSet();
        }

        private Wanted(long sizes) {
            this.sizes = sizes;
            types = null;
        }

        /// Adds chunks with slots, or runs, for so many bytes.
        public void addSlots(long bytes) {
            sizes |= SizeClasses.bit(bytes);
        }

        /// Adds chunks with columns of a type.
        public void addColumns(int type) {
            if (types != null) {
                types.set(type);
            }
        }

        boolean hasRuns() {
            return sizes < 0;
        }

        boolean hasCut(long cut) {
            return ChunkMap.kind(cut) == ChunkMap.KIND_SLOTS
                    ? (sizes >>> ChunkMap.sizeClass(cut) & 1) != 0
                    : types == null || types.get(ChunkMap.typeOf(cut));
        }
    }

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
        return nextAllocated(offset, Wanted.ALL);
    }

    /// The same for parts in some chunks.
    public long nextAllocated(long offset, Wanted wanted) {
        if (readOnly) {
            followExtents();
        }
        return allocator.chunks().next(offset, wanted);
    }

    /// Bytes from the begin of the slot at `offset` of persistent memory to that of the next.
    public long stepAt(long offset) {
        return allocator.chunks().stepAt(offset);
    }

    /// A bit for each of the next 63 slots behind the one at `offset` of persistent memory that is
    /// in use; bit 0 is the next slot.
    public long slotsAhead(long offset) {
        return allocator.chunks().ahead(offset);
    }

    /// Whether the chunk of a record, which is in use, is cut into columns for records of this type
    /// and length.
    public boolean isInColumnsOf(long record, int type, int bytes) {
        return allocator.chunks().cutAt(record) == ChunkMap.columnsOf(bytes, type);
    }

    /// Whether the chunk of a record, which is in use, is cut into columns.
    public boolean isInColumns(long record) {
        return ChunkMap.kind(allocator.chunks().cutAt(record)) == ChunkMap.KIND_COLUMNS;
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
        return begin(find(() -> allocator.allocate(bytes, type)), bytes);
    }

    /// Allocates an object in columns, all zeros behind its header. In a transaction. The region
    /// grows if it must.
    ///
    /// @throws StoreFailure.Full if there is no room
    public long allocate(Columns columns, int type) {
        store.requireTransaction();
        long record = find(() -> allocator.allocate(columns, type));
        requireRoom(record, columns.bytes());
        store.changes().allocated(record, columns);
        columns.clear(pmem, store.changes(), record);
        return record;
    }

    private long find(LongSupplier allocate) {
        long offset = allocate.getAsLong();
        if (offset == Store.NONE && releaseEmpty(allocator)) {
            offset = allocate.getAsLong();
        }
        if (offset == Store.NONE && allocator.isAvoiding()) {
            // A value that needs room takes precedence over compaction.
            allocator.avoid(new BitSet());
            offset = allocate.getAsLong();
        }
        if (offset == Store.NONE) {
            grow();
            offset = allocate.getAsLong();
        }
        return offset;
    }

    /// Allocates zeros for a buffer, after a header, without growing the region.
    long allocateWithin(long bytes) {
        return begin(allocator.allocate(bytes, Headers.BUFFER), bytes);
    }

    private long begin(long offset, long bytes) {
        requireRoom(offset, bytes);
        pmem.zero(offset + Headers.BYTES, bytes - Headers.BYTES);
        store.changes().allocated(offset, bytes);
        return offset;
    }

    private void requireRoom(long offset, long bytes) {
        if (offset == Store.NONE) {
            throw new StoreFailure.Full(pmem.name() + " has no room for " + bytes + " bytes");
        }
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
