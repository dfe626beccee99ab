package dev.terrace.objects.internal.store;

import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;
import java.util.UUID;

/// A disk of a pool, which holds buffers of values. Maps in persistent memory, a linked list with
/// one for each extent, record the parts in use.
///
/// Invariant: bytes that a transaction writes to a disk are durable before the words that lead to
/// them are in the log.
final class Disk {
    private static final long NONE = -1;

    /// A map's own words follow its header and the word that leads to the next map.
    private static final int MAP_AT = Headers.BYTES + Long.BYTES;

    private static final int FIRST_MAP_AT = 8;
    private static final int CODE_SHIFT = Integer.numberOfTrailingZeros(Superblock.DISKS_MAX);
    private static final int LAST_MAP_AT = 16;
    private static final int SPARE_MAP_AT = 24;

    private final Store store;
    private final int index;
    private final Medium tier;
    private final Region region;
    private final Allocator allocator;
    private final UUID pool;

    /// The offset of the disk's words in the superblock.
    private final long at;

    /// The ranges that the transaction has written: offset and length.
    private final List<long[]> written = new ArrayList<>();

    Disk(Store store, int index, Store.TierRegion disk, Words words, UUID pool) {
        this.store = store;
        this.index = index;
        this.pool = pool;
        tier = disk.tier();
        region = disk.region();
        allocator = new Allocator(words, region, false, 0);
        at = Superblock.DISKS_AT + index * Superblock.DISK_BYTES;
    }

    Medium tier() {
        return tier;
    }

    Region region() {
        return region;
    }

    Allocator allocator() {
        return allocator;
    }

    /// A code for an offset of this disk: a negative number, to tell it from offsets of persistent
    /// memory.
    long codeOf(long offset) {
        return -(offset << CODE_SHIFT | index) - 1;
    }

    /// The disk of a code.
    static int ofCode(long code) {
        return (int) -(code + 1) & Superblock.DISKS_MAX - 1;
    }

    /// The offset of a code.
    static long offsetOfCode(long code) {
        return -(code + 1) >>> CODE_SHIFT;
    }

    /// Finds the present maps.
    void open() {
        allocator.keepExtents(0);
        long count = store.word(at);
        if (count > 0) {
            DiskLabel.check(region, pool, index, tier);
        }
        long map = store.word(at + FIRST_MAP_AT);
        long last = 0;
        if (count > 0 && !region.contains((count - 1) * region.extentBytes())) {
            throw new StoreFailure.Damaged(
                    region.name() + " has less than " + count + " extents: was it truncated?");
        }
        for (int extent = 0; extent < count; extent++) {
            addExtent(map, extent);
            last = map;
            map = store.word(map + Headers.BYTES);
        }
        if (last != store.word(at + LAST_MAP_AT)) {
            // An unknown extent would be overwritten.
            throw new StoreFailure.Damaged(
                    store.pmem().name() + ": the words of disk " + index + " are damaged");
        }
    }

    private void addExtent(long map, int extent) {
        // The label is in the first chunk.
        allocator.addExtent(map + MAP_AT, extent == 0 ? SizeClasses.CHUNK_BYTES : 0);
    }

    /// Allocates a part; -1 if there is no room.
    long allocate(long bytes) {
        allocator.requireFits(bytes);
        long offset = allocator.allocate(bytes, 0);
        if (offset == NONE && store.parts().releaseEmpty(allocator)) {
            offset = allocator.allocate(bytes, 0);
        }
        if (offset == NONE && allocator.isAvoiding()) {
            // A value that needs room takes precedence over compaction.
            allocator.avoid(new BitSet());
            offset = allocator.allocate(bytes, 0);
        }
        haveMapReady();
        if (offset != NONE) {
            return offset;
        }
        try {
            grow();
        } catch (StoreFailure.Full full) {
            return NONE;
        }
        return allocator.allocate(bytes, 0);
    }

    /// Prepares a map for the next extent, if there is room: when persistent memory is full, the
    /// disk must still be able to grow, so that values can move to it.
    void haveMapReady() {
        if (store.word(at + SPARE_MAP_AT) != 0) {
            return;
        }
        try {
            store.putWord(0, at + SPARE_MAP_AT, allocateMap());
        } catch (StoreFailure.Full full) {
            // The next allocation tries again.
            return;
        }
    }

    private long allocateMap() {
        return store.allocate(MAP_AT + ChunkMap.mapBytes(region.extentBytes()), Headers.BUFFER);
    }

    private void grow() {
        int extent = allocator.chunks().extents();
        if (extent == region.extents()) {
            region.grow();
        }
        if (extent == 0) {
            DiskLabel.write(region, pool, index, tier);
        }
        long spare = store.word(at + SPARE_MAP_AT);
        long map = spare == 0 ? allocateMap() : spare;
        store.putWord(0, at + SPARE_MAP_AT, 0);
        store.putWord(0, at, extent + 1L);
        long before =
                extent == 0 ? at + FIRST_MAP_AT : store.word(at + LAST_MAP_AT) + Headers.BYTES;
        store.putWord(0, before, map);
        store.putWord(0, at + LAST_MAP_AT, map);
        addExtent(map, extent);
        store.afterRollback(() -> allocator.keepExtents(extent));
    }

    /// Removes empty extents at the end of the disk. In a transaction; call [#cutOff()] after it
    /// has committed.
    void dropEmptyExtents() {
        int count = allocator.chunks().extents();
        int keep = count;
        while (keep > 0 && allocator.isEmpty(keep - 1)) {
            keep--;
        }
        if (keep == count) {
            return;
        }
        for (int extent = keep; extent < count; extent++) {
            store.free(mapOf(extent));
        }
        store.putWord(0, at, keep);
        store.putWord(0, at + LAST_MAP_AT, keep == 0 ? 0 : mapOf(keep - 1));
        if (keep == 0) {
            store.putWord(0, at + FIRST_MAP_AT, 0);
        } else {
            store.putWord(mapOf(keep - 1), mapOf(keep - 1) + Headers.BYTES, 0);
        }
        int kept = keep;
        store.afterCommit(() -> allocator.keepExtents(kept));
    }

    private long mapOf(int extent) {
        return allocator.chunks().at(extent) - MAP_AT;
    }

    /// Truncates the disk's file to the extents in use, whose number is durable, and returns the
    /// number of bytes that it gives back.
    long cutOff() {
        return region.shrink(allocator.chunks().extents());
    }

    /// Writes to an allocated part.
    void write(long offset, MemorySegment source, long length) {
        region.put(offset, source, 0, length);
        written.add(new long[] {offset, length});
    }

    /// Makes the writes of the transaction durable.
    void flush() {
        if (!written.isEmpty()) {
            written.forEach(range -> region.flush(range[0], range[1]));
            region.fence();
        }
    }

    /// Ends the transaction.
    void forget() {
        written.clear();
    }

    /// Shows the maps.
    void links(Links links) {
        long map = store.word(at + FIRST_MAP_AT);
        for (long extent = store.word(at); extent > 0; extent--) {
            links.owned(map);
            map = store.word(map + Headers.BYTES);
        }
        long spare = store.word(at + SPARE_MAP_AT);
        if (spare != 0) {
            links.owned(spare);
        }
    }
}
