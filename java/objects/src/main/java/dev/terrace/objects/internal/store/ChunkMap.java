package dev.terrace.objects.internal.store;

import static dev.terrace.objects.internal.store.SizeClasses.CHUNK_BYTES;

import java.util.Arrays;

/// The maps of a region's extents, which say which parts are in use: for each chunk a descriptor,
/// and behind all of these for each chunk a bitmap of its slots.
///
/// All threads may read the maps. Only an [Allocator] changes them.
final class ChunkMap {
    /// Bytes of a chunk's bitmap, which has a bit for each possible slot.
    private static final int BITMAP_BYTES = CHUNK_BYTES / SizeClasses.SLOT_BYTES_MIN / 8;

    static final int KIND_SLOTS = 1;
    static final int KIND_RUN = 2;
    static final int KIND_COLUMNS = 3;

    /// In a descriptor of a chunk with columns: the bits of the words of an object, behind which
    /// its type is.
    private static final int WORDS_BITS = 16;

    private static final int NONE = -1;

    private final Words words;
    private final Region region;
    private final int chunksPerExtent;

    /// The place of each extent's map.
    private volatile long[] maps = {};

    /// For each extent, the number of its first chunks that are reserved forever.
    private volatile int[] reserved = {};

    ChunkMap(Words words, Region region) {
        this.words = words;
        this.region = region;
        chunksPerExtent = (int) (region.extentBytes() / CHUNK_BYTES);
    }

    /// Bytes of an extent's map.
    static long mapBytes(long extentBytes) {
        return extentBytes / CHUNK_BYTES * (8 + BITMAP_BYTES);
    }

    /// Adds an extent.
    void addExtent(long map, long reservedBytes) {
        int extent = maps.length;
        int[] moreReserved = Arrays.copyOf(reserved, extent + 1);
        moreReserved[extent] = (int) ((reservedBytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
        reserved = moreReserved;
        long[] more = Arrays.copyOf(maps, extent + 1);
        more[extent] = map;
        // Other threads may read it: they see the array together with its contents.
        maps = more;
    }

    /// Removes all extents but the first `count`.
    void keepExtents(int count) {
        maps = Arrays.copyOf(maps, count);
        reserved = Arrays.copyOf(reserved, count);
    }

    /// How many extents have maps.
    int extents() {
        return maps.length;
    }

    /// Chunks in an extent.
    int perExtent() {
        return chunksPerExtent;
    }

    /// Where the map of an extent is.
    long at(int extent) {
        return maps[extent];
    }

    /// The number of an extent's first chunks that are reserved forever.
    int reserved(int extent) {
        return reserved[extent];
    }

    /// Whether the part at `offset` is in use.
    boolean isAllocated(long offset) {
        if (!region.contains(offset) || offset / region.extentBytes() >= maps.length) {
            return false;
        }
        int chunk = (int) (offset / CHUNK_BYTES);
        long descriptor = descriptorOf(chunk);
        if (kind(descriptor) == KIND_RUN) {
            return offset % CHUNK_BYTES == 0;
        }
        if (!isCut(descriptor)) {
            return false;
        }
        int step = step(descriptor);
        int slot = (int) (offset % CHUNK_BYTES) / step;
        boolean begins = offset % CHUNK_BYTES % step == 0 && slot < slots(descriptor);
        return begins && (words.get(bitmapAt(chunk) + slot / 64 * 8) >>> slot & 1) != 0;
    }

    /// Bytes of the slot or run at `offset`, which is in use.
    long sizeOf(long offset) {
        long descriptor = descriptorOf((int) (offset / CHUNK_BYTES));
        return kind(descriptor) == KIND_RUN
                ? (long) runChunks(descriptor) * CHUNK_BYTES
                : slotBytes(descriptor);
    }

    /// Bytes from the begin of the slot at `offset`, which is in use, to that of the next in its
    /// chunk; those of a run, behind which there is none.
    long stepAt(long offset) {
        long descriptor = descriptorOf((int) (offset / CHUNK_BYTES));
        return isCut(descriptor) ? step(descriptor) : sizeOf(offset);
    }

    /// The offset of the first part in use from `from` on; [#NONE] if there is none.
    long next(long from) {
        return next(from, Parts.Wanted.ALL);
    }

    /// The same for parts in some chunks.
    long next(long from, Parts.Wanted wanted) {
        int chunk = (int) (from / CHUNK_BYTES);
        long offset = from;
        while (chunk < maps.length * chunksPerExtent) {
            int inExtent = chunk % chunksPerExtent;
            long descriptor =
                    inExtent < reserved[chunk / chunksPerExtent] ? 0 : descriptorOf(chunk);
            long start = (long) chunk * CHUNK_BYTES;
            if (kind(descriptor) == KIND_RUN) {
                if (offset <= start && wanted.hasRuns()) {
                    return start;
                }
                chunk += runChunks(descriptor);
            } else {
                boolean isWanted = isCut(descriptor) && wanted.hasCut(descriptor);
                long found = isWanted ? nextSlot(chunk, descriptor, offset) : NONE;
                if (found != NONE) {
                    return found;
                }
                chunk++;
            }
            offset = (long) chunk * CHUNK_BYTES;
        }
        return NONE;
    }

    private long nextSlot(int chunk, long descriptor, long from) {
        int step = step(descriptor);
        int slots = slots(descriptor);
        long start = (long) chunk * CHUNK_BYTES;
        int slot = (int) ((from - start + step - 1) / step);
        while (slot < slots) {
            long bits = words.get(bitmapAt(chunk) + slot / 64 * 8) >>> slot;
            if (bits != 0) {
                return start + (long) (slot + Long.numberOfTrailingZeros(bits)) * step;
            }
            slot = (slot / 64 + 1) * 64;
        }
        return NONE;
    }

    /// A bit for each of the next 63 slots behind the one at `offset` that is in use; bit 0 is the
    /// next slot. Zero behind a run.
    long ahead(long offset) {
        int chunk = (int) (offset / CHUNK_BYTES);
        long descriptor = descriptorOf(chunk);
        if (!isCut(descriptor)) {
            return 0;
        }
        int slot = (int) (offset % CHUNK_BYTES) / step(descriptor);
        long bits = words.get(bitmapAt(chunk) + slot / 64 * 8) >>> slot >>> 1;
        // Damaged bits behind the last slot would lead out of the chunk.
        int behind = slots(descriptor) - slot - 1;
        return behind < Long.SIZE ? bits & (1L << behind) - 1 : bits;
    }

    /// Bytes in use, slots and runs as a whole. Any thread may ask, also while extents come and go.
    long usedBytes() {
        long[] all = maps;
        int[] their = reserved;
        long used = 0;
        for (int extent = 0; extent < Math.min(all.length, their.length); extent++) {
            used += usedBytes(all[extent], their[extent]);
        }
        return used;
    }

    /// Bytes in use of an extent with this map, behind its first chunks, which are reserved.
    private long usedBytes(long map, int first) {
        long used = 0;
        int chunk = first;
        while (chunk < chunksPerExtent) {
            long descriptor = requirePossible(words.get(map + chunk * 8L), chunk);
            if (kind(descriptor) == KIND_RUN) {
                used += (long) runChunks(descriptor) * CHUNK_BYTES;
                chunk += runChunks(descriptor);
            } else {
                used +=
                        isCut(descriptor)
                                ? (long) usedSlots(bitmapAt(map, chunk), descriptor)
                                        * slotBytes(descriptor)
                                : 0;
                chunk++;
            }
        }
        return used;
    }

    int used(int chunk, long cut) {
        return usedSlots(bitmapAt(chunk), cut);
    }

    private int usedSlots(long bitmap, long cut) {
        int used = 0;
        for (int word = 0; word < bitmapWords(cut); word++) {
            used += Long.bitCount(words.get(bitmap + word * 8L));
        }
        return used;
    }

    boolean isEmpty(int chunk, long cut) {
        for (int word = 0; word < bitmapWords(cut); word++) {
            if (words.get(bitmapAt(chunk) + word * 8L) != 0) {
                return false;
            }
        }
        return true;
    }

    static int bitmapWords(long cut) {
        return (slots(cut) + 63) / 64;
    }

    long descriptorAt(int chunk) {
        return maps[chunk / chunksPerExtent] + chunk % chunksPerExtent * 8L;
    }

    long bitmapAt(int chunk) {
        return bitmapAt(maps[chunk / chunksPerExtent], chunk % chunksPerExtent);
    }

    private long bitmapAt(long map, int chunk) {
        return map + chunksPerExtent * 8L + (long) chunk * BITMAP_BYTES;
    }

    /// A chunk's descriptor.
    ///
    /// @throws StoreFailure.Damaged if it is impossible
    long descriptorOf(int chunk) {
        return requirePossible(words.get(descriptorAt(chunk)), chunk);
    }

    private long requirePossible(long descriptor, int chunk) {
        boolean isPossible =
                switch (kind(descriptor)) {
                    case 0 -> true;
                    case KIND_SLOTS ->
                            sizeClass(descriptor) >= 0
                                    && sizeClass(descriptor) < SizeClasses.count();
                    case KIND_RUN ->
                            runChunks(descriptor) > 0
                                    && runChunks(descriptor)
                                            <= chunksPerExtent - chunk % chunksPerExtent;
                    case KIND_COLUMNS ->
                            slotBytes(descriptor) >= SizeClasses.SLOT_BYTES_MIN
                                    && slots(descriptor) > 1;
                    default -> false;
                };
        if (!isPossible) {
            throw new StoreFailure.Damaged(
                    region.name() + ": what is said of chunk " + chunk + " is damaged");
        }
        return descriptor;
    }

    /// Kind (8 bits), generation (24 bits), class or number of chunks (32 bits).
    static long descriptor(int kind, int size, int generation) {
        return (long) size << 32 | (long) generation << 8 | kind;
    }

    /// The cut into slots of a size class: a descriptor without a generation.
    static long slotsOf(int sizeClass) {
        return descriptor(KIND_SLOTS, sizeClass, 0);
    }

    /// The cut into columns of a type, whose records have so many bytes.
    static long columnsOf(int bytes, int type) {
        return descriptor(KIND_COLUMNS, type << WORDS_BITS | bytes / Long.BYTES, 0);
    }

    /// How a chunk is cut, whatever its generation.
    static long cut(long descriptor) {
        return descriptor(kind(descriptor), (int) (descriptor >>> 32), 0);
    }

    /// How the chunk of an offset is cut.
    long cutAt(long offset) {
        return cut(descriptorOf((int) (offset / CHUNK_BYTES)));
    }

    static boolean isCut(long descriptor) {
        return kind(descriptor) == KIND_SLOTS || kind(descriptor) == KIND_COLUMNS;
    }

    /// The type of the objects in a chunk with columns.
    static int typeOf(long cut) {
        return (int) (cut >>> 32 + WORDS_BITS);
    }

    /// Bytes of an object, or of another part, in a cut chunk.
    static int slotBytes(long cut) {
        return kind(cut) == KIND_SLOTS
                ? SizeClasses.slotBytes(sizeClass(cut))
                : ((int) (cut >>> 32) & (1 << WORDS_BITS) - 1) * Long.BYTES;
    }

    /// Bytes from the begin of a slot to that of the next: in columns, from header to header.
    static int step(long cut) {
        return kind(cut) == KIND_SLOTS
                ? SizeClasses.slotBytes(sizeClass(cut))
                : Columns.FRONT_BYTES;
    }

    /// How many slots there are in a cut chunk.
    static int slots(long cut) {
        return kind(cut) == KIND_SLOTS
                ? SizeClasses.slots(sizeClass(cut))
                : Columns.slots(slotBytes(cut));
    }

    static int kind(long descriptor) {
        return (int) descriptor & 0xff;
    }

    static int generation(long descriptor) {
        return (int) (descriptor >>> 8) & Headers.GENERATION_MAX;
    }

    static int sizeClass(long descriptor) {
        return (int) (descriptor >>> 32);
    }

    static int runChunks(long descriptor) {
        return (int) (descriptor >>> 32);
    }
}
