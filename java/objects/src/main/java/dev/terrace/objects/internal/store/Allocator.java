package dev.terrace.objects.internal.store;

import static dev.terrace.objects.internal.store.SizeClasses.CHUNK_BYTES;

import java.util.Arrays;
import java.util.BitSet;

/// Allocates parts of a region: slots, into which a chunk is divided evenly, and runs of whole
/// chunks.
///
/// Each extent has a *map* in persistent memory, which records the parts in use: a descriptor per
/// chunk, then a bitmap per chunk. The transaction that allocates or frees changes the map, so that
/// both are durable together. In memory, this class keeps only an index for finding room, which is
/// built when it is first needed.
///
/// Invariant: space that a transaction frees is not free before it commits; callers free space only
/// while they commit.
final class Allocator {
    /// Bytes of a chunk's bitmap, which has a bit for each possible slot.
    private static final int BITMAP_BYTES = CHUNK_BYTES / SizeClasses.SLOT_BYTES_MIN / 8;

    private static final int KIND_SLOTS = 1;
    private static final int KIND_RUN = 2;
    private static final int NONE = -1;

    /// The number of chunks that are given back at once; their words fit into any log.
    private static final int RELEASED_MAX = 1000;

    /// The share that is kept for logs: an eighth of persistent memory, but at most half an extent,
    /// the limit of a log.
    private static final int KEPT_OF_ALL = 8;

    private static final int KEPT_OF_EXTENT = 2;

    private final Words words;
    private final Region region;
    private final boolean hasHeaders;
    private final long secret;
    private final int chunksPerExtent;

    /// The place of each extent's map, and the number of its first chunks that are reserved
    /// forever.
    private volatile long[] maps = {};

    private int[] reserved = {};

    private boolean indexed;
    private final BitSet freeChunks = new BitSet();
    private final IntStack[] candidates = new IntStack[SizeClasses.count()];

    /// For each chunk, the first word of its bitmap that may have a clear bit.
    private byte[] hints = {};

    /// Chunks that get no new values, because their values are to leave them.
    private BitSet avoided = new BitSet();

    /// Free chunks in a row that are kept free, in persistent memory: for the logs of transactions
    /// that free space when no other space is left.
    private final BitSet kept = new BitSet();

    /// Receives the use of each chunk, except reserved ones.
    interface Chunks {
        /// A chunk is free.
        default void free(int chunk) {}

        /// A chunk is cut into slots.
        void slots(int chunk, int sizeClass, int used);

        /// So many chunks are a run.
        default void run(int first, int count) {}
    }

    /// For a region without extents.
    ///
    /// @param hasHeaders whether allocated parts begin with a header, as they do in persistent
    ///   memory
    Allocator(Words words, Region region, boolean hasHeaders, long secret) {
        this.words = words;
        this.region = region;
        this.hasHeaders = hasHeaders;
        this.secret = secret;
        chunksPerExtent = (int) (region.extentBytes() / CHUNK_BYTES);
        Arrays.setAll(candidates, _ -> new IntStack());
    }

    /// Bytes of an extent's map.
    static long mapBytes(long extentBytes) {
        return extentBytes / CHUNK_BYTES * (8 + BITMAP_BYTES);
    }

    /// Adds an extent, whose map is all zeros.
    void addExtent(long map, long reservedBytes) {
        int extent = maps.length;
        reserved = Arrays.copyOf(reserved, extent + 1);
        reserved[extent] = (int) ((reservedBytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
        hints = Arrays.copyOf(hints, (extent + 1) * chunksPerExtent);
        long[] more = Arrays.copyOf(maps, extent + 1);
        more[extent] = map;
        // Other threads may read it: they see the array together with its contents.
        maps = more;
        if (indexed) {
            index(extent);
            keepSome();
        }
    }

    /// Removes the last extents, after the transaction that added them was rolled back.
    void keepExtents(int count) {
        maps = Arrays.copyOf(maps, count);
        reserved = Arrays.copyOf(reserved, count);
        forgetIndex();
    }

    /// Where the map of an extent is.
    long map(int extent) {
        return maps[extent];
    }

    int chunksPerExtent() {
        return chunksPerExtent;
    }

    /// From now on, stores no new values in these chunks, and does not reuse their freed space,
    /// until the next call.
    void avoid(BitSet chunks) {
        avoided = chunks;
        forgetIndex();
    }

    boolean isAvoiding() {
        return !avoided.isEmpty();
    }

    boolean isAvoided(int chunk) {
        return avoided.get(chunk);
    }

    /// Whether nothing in an extent is in use.
    boolean isEmpty(int extent) {
        long from = extent * region.extentBytes();
        long next = next(from);
        return next == NONE || next >= from + region.extentBytes();
    }

    /// How many extents have maps.
    int extents() {
        return maps.length;
    }

    /// Discards the index, which may be wrong after the transaction was rolled back.
    void forgetIndex() {
        indexed = false;
    }

    /// Throws an exception if so many bytes do not fit into an extent.
    ///
    /// @throws StoreFailure.Full if they do not
    void requireFits(long bytes) {
        long most = region.extentBytes() - mapBytes(region.extentBytes()) - 2 * CHUNK_BYTES;
        if (bytes > most) {
            throw new StoreFailure.Full(
                    bytes
                            + " bytes do not fit into an extent of "
                            + region.name()
                            + ", which has "
                            + region.extentBytes()
                            + ": make the pool with larger extents");
        }
    }

    /// Allocates a part, and writes its header, if it has one. Returns [#NONE] if there is no room.
    long allocate(long bytes, int type) {
        if (!indexed) {
            index();
        }
        int sizeClass = SizeClasses.of(bytes);
        long offset = sizeClass < 0 ? takeRun(chunks(bytes)) : takeSlot(sizeClass);
        if (offset != NONE && hasHeaders) {
            int generation = Headers.generation(words.get(offset));
            region.putLong(offset, Headers.of(secret, offset, type, generation));
        }
        return offset;
    }

    /// Frees the part at `offset`, whose header already has the next generation. Called while the
    /// transaction commits.
    void free(long offset) {
        int chunk = (int) (offset / CHUNK_BYTES);
        long descriptor = descriptorOf(chunk);
        int generation = hasHeaders ? Headers.generation(words.get(offset)) : 1;
        if (generation == Headers.GENERATION_MAX) {
            return;
        }
        if (kind(descriptor) == KIND_RUN) {
            words.put(descriptorAt(chunk), descriptor(0, 0, generation));
            if (indexed) {
                freeChunks.set(chunk, chunk + runChunks(descriptor));
                freeChunks.andNot(avoided);
            }
            return;
        }
        int sizeClass = sizeClass(descriptor);
        int slot = (int) (offset % CHUNK_BYTES) / SizeClasses.slotBytes(sizeClass);
        long at = bitmapAt(chunk) + slot / 64 * 8;
        long bits = words.get(at);
        words.put(at, bits & ~(1L << slot));
        if (indexed) {
            noteFreed(chunk, sizeClass, slot / 64);
        }
        releaseIfEmpty(chunk, sizeClass);
    }

    private void noteFreed(int chunk, int sizeClass, int word) {
        if (hints[chunk] > word) {
            hints[chunk] = (byte) word;
        }
        if (!avoided.get(chunk)) {
            candidates[sizeClass].pushUnlessTop(chunk);
        }
    }

    /// Gives back a chunk whose last slot has been freed, if another chunk has slots of the same
    /// class. It must happen in the same commit, before anything overwrites the slots' headers.
    private void releaseIfEmpty(int chunk, int sizeClass) {
        boolean isLast = indexed && candidates[sizeClass].isAll(chunk);
        if (isLast || !isEmpty(chunk, sizeClass)) {
            return;
        }
        int generation = nextGeneration(chunk);
        if (generation > Headers.GENERATION_MAX) {
            return;
        }
        words.put(descriptorAt(chunk), descriptor(0, 0, generation));
        if (indexed && !avoided.get(chunk)) {
            freeChunks.set(chunk);
        }
    }

    /// Marks chunks as free in `released` that are divided into slots and are empty, both in the
    /// committed state and in the present transaction; at most as many as fit into a log.
    void releaseEmpty(Overlay released) {
        for (int extent = 0; extent < maps.length; extent++) {
            int end = (extent + 1) * chunksPerExtent;
            for (int chunk = extent * chunksPerExtent + reserved[extent]; chunk < end; chunk++) {
                long descriptor = descriptorOf(chunk);
                if (kind(descriptor) == KIND_RUN) {
                    chunk += runChunks(descriptor) - 1;
                } else if (kind(descriptor) == KIND_SLOTS
                        && released.size() < RELEASED_MAX
                        && isUntouched(chunk)) {
                    int generation = nextGeneration(chunk);
                    if (generation <= Headers.GENERATION_MAX) {
                        released.put(descriptorAt(chunk), descriptor(0, 0, generation));
                    }
                }
            }
        }
    }

    /// Whether a chunk is empty, and the present transaction has not changed it.
    private boolean isUntouched(int chunk) {
        boolean same = !words.isChanged(descriptorAt(chunk));
        int count = bitmapWords(sizeClass(descriptorOf(chunk)));
        for (int word = 0; same && word < count; word++) {
            long at = bitmapAt(chunk) + word * 8L;
            same = words.get(at) == 0 && !words.isChanged(at);
        }
        return same;
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
        if (kind(descriptor) != KIND_SLOTS) {
            return false;
        }
        int bytes = SizeClasses.slotBytes(sizeClass(descriptor));
        int slot = (int) (offset % CHUNK_BYTES) / bytes;
        boolean begins =
                offset % CHUNK_BYTES % bytes == 0
                        && slot < SizeClasses.slots(sizeClass(descriptor));
        return begins && (words.get(bitmapAt(chunk) + slot / 64 * 8) >>> slot & 1) != 0;
    }

    /// Bytes of the slot or run at `offset`, which is in use.
    long sizeOf(long offset) {
        long descriptor = descriptorOf((int) (offset / CHUNK_BYTES));
        return kind(descriptor) == KIND_RUN
                ? (long) runChunks(descriptor) * CHUNK_BYTES
                : SizeClasses.slotBytes(sizeClass(descriptor));
    }

    /// The offset of the first part in use from `from` on; [#NONE] if there is none.
    long next(long from) {
        return next(from, -1L);
    }

    /// The same for parts of some size classes, a set of [SizeClasses#bit(long)].
    long next(long from, long sizeClasses) {
        int chunk = (int) (from / CHUNK_BYTES);
        long offset = from;
        while (chunk < maps.length * chunksPerExtent) {
            int inExtent = chunk % chunksPerExtent;
            long descriptor =
                    inExtent < reserved[chunk / chunksPerExtent] ? 0 : descriptorOf(chunk);
            long start = (long) chunk * CHUNK_BYTES;
            if (kind(descriptor) == KIND_RUN) {
                if (offset <= start && sizeClasses < 0) {
                    return start;
                }
                chunk += runChunks(descriptor);
            } else {
                boolean isWanted =
                        kind(descriptor) == KIND_SLOTS
                                && (sizeClasses >>> sizeClass(descriptor) & 1) != 0;
                long found = isWanted ? nextSlot(chunk, sizeClass(descriptor), offset) : NONE;
                if (found != NONE) {
                    return found;
                }
                chunk++;
            }
            offset = (long) chunk * CHUNK_BYTES;
        }
        return NONE;
    }

    private long nextSlot(int chunk, int sizeClass, long from) {
        int bytes = SizeClasses.slotBytes(sizeClass);
        long start = (long) chunk * CHUNK_BYTES;
        int slot = (int) ((from - start + bytes - 1) / bytes);
        while (slot < SizeClasses.slots(sizeClass)) {
            long bits = words.get(bitmapAt(chunk) + slot / 64 * 8) >>> slot;
            if (bits != 0) {
                return start + (long) (slot + Long.numberOfTrailingZeros(bits)) * bytes;
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
        if (kind(descriptor) != KIND_SLOTS) {
            return 0;
        }
        int slot = (int) (offset % CHUNK_BYTES) / SizeClasses.slotBytes(sizeClass(descriptor));
        return words.get(bitmapAt(chunk) + slot / 64 * 8) >>> slot >>> 1;
    }

    /// Bytes of chunks that are free.
    long freeBytes() {
        if (!indexed) {
            index();
        }
        return (long) freeChunks.cardinality() * CHUNK_BYTES;
    }

    /// Bytes in use, slots and runs as a whole.
    long usedBytes() {
        long used = 0;
        for (long offset = next(0); offset != NONE; offset = next(offset + 1)) {
            used += sizeOf(offset);
        }
        return used;
    }

    /// Finds empty chunks in a row that can be borrowed for a moment: the offset of the first one,
    /// or [#NONE].
    long borrow(long bytes) {
        if (!indexed) {
            index();
        }
        int chunk = findRun(chunks(bytes));
        if (chunk == NONE) {
            BitSet all = (BitSet) freeChunks.clone();
            all.or(kept);
            chunk = findRun(all, chunks(bytes), chunksPerExtent);
        }
        return chunk == NONE ? NONE : (long) chunk * CHUNK_BYTES;
    }

    /// Reserves the last free chunks in a row, to be borrowed when no other chunk is free.
    private void keepSome() {
        freeChunks.or(kept);
        freeChunks.andNot(avoided);
        kept.clear();
        int wanted =
                Math.min(
                        chunksPerExtent / KEPT_OF_EXTENT,
                        maps.length * chunksPerExtent / KEPT_OF_ALL);
        for (int end = freeChunks.length(); end > 0 && hasHeaders; ) {
            int from =
                    Math.max(
                            freeChunks.previousClearBit(end - 1) + 1,
                            (end - 1) / chunksPerExtent * chunksPerExtent);
            if (Math.min(end - from, wanted) > kept.cardinality()) {
                kept.clear();
                kept.set(Math.max(from, end - wanted), end);
            }
            end = freeChunks.previousSetBit(from - 1) + 1;
        }
        freeChunks.andNot(kept);
    }

    private static int chunks(long bytes) {
        return (int) ((bytes + CHUNK_BYTES - 1) / CHUNK_BYTES);
    }

    private long takeSlot(int sizeClass) {
        IntStack stack = candidates[sizeClass];
        while (true) {
            while (!stack.isEmpty()) {
                int chunk = stack.top();
                long offset = takeSlotOf(chunk, sizeClass);
                if (offset != NONE) {
                    return offset;
                }
                stack.pop();
            }
            int chunk = takeChunk();
            if (chunk == NONE) {
                return NONE;
            }
            cut(chunk, sizeClass);
            stack.push(chunk);
        }
    }

    private long takeSlotOf(int chunk, int sizeClass) {
        long descriptor = descriptorOf(chunk);
        if (kind(descriptor) != KIND_SLOTS || sizeClass(descriptor) != sizeClass) {
            return NONE; // It has been divided anew since.
        }
        int slots = SizeClasses.slots(sizeClass);
        for (int word = hints[chunk]; word < bitmapWords(sizeClass); word++) {
            long at = bitmapAt(chunk) + word * 8L;
            long bits = words.get(at);
            int slot = word * 64 + Long.numberOfTrailingZeros(~bits);
            if (bits != -1L && slot < slots) {
                words.put(at, bits | 1L << slot);
                hints[chunk] = (byte) word;
                return (long) chunk * CHUNK_BYTES + (long) slot * SizeClasses.slotBytes(sizeClass);
            }
        }
        return NONE;
    }

    private int takeChunk() {
        int chunk = freeChunks.nextSetBit(0);
        if (chunk < 0) {
            return NONE;
        }
        freeChunks.clear(chunk);
        return chunk;
    }

    /// Divides a free chunk into slots of this class, whose generations are higher than any before.
    private void cut(int chunk, int sizeClass) {
        int generation = nextGeneration(chunk);
        words.put(descriptorAt(chunk), descriptor(KIND_SLOTS, sizeClass, generation));
        hints[chunk] = 0;
        if (hasHeaders) {
            int bytes = SizeClasses.slotBytes(sizeClass);
            long start = (long) chunk * CHUNK_BYTES;
            for (long offset = start; offset + bytes <= start + CHUNK_BYTES; offset += bytes) {
                region.putLong(offset, Headers.of(secret, offset, Headers.FREE, generation));
                region.flush(offset, Headers.BYTES);
            }
        }
    }

    private int nextGeneration(int chunk) {
        long descriptor = descriptorOf(chunk);
        int generation = Math.max(1, generation(descriptor));
        if (hasHeaders && kind(descriptor) == KIND_SLOTS) {
            int bytes = SizeClasses.slotBytes(sizeClass(descriptor));
            long start = (long) chunk * CHUNK_BYTES;
            for (long offset = start; offset + bytes <= start + CHUNK_BYTES; offset += bytes) {
                generation = Math.max(generation, Headers.generation(words.get(offset)) + 1);
            }
        }
        return generation;
    }

    private long takeRun(int count) {
        int first = findRun(count);
        if (first == NONE) {
            return NONE;
        }
        int generation = 1;
        for (int chunk = first; chunk < first + count; chunk++) {
            generation = Math.max(generation, nextGeneration(chunk));
        }
        words.put(descriptorAt(first), descriptor(KIND_RUN, count, generation));
        freeChunks.clear(first, first + count);
        long offset = (long) first * CHUNK_BYTES;
        if (hasHeaders) {
            region.putLong(offset, Headers.of(secret, offset, Headers.FREE, generation));
        }
        return offset;
    }

    private int findRun(int count) {
        return findRun(freeChunks, count, chunksPerExtent);
    }

    /// The first of so many set bits in a row, for chunks of one extent; -1 if there are none.
    static int findRun(BitSet free, int count, int chunksPerExtent) {
        int first = free.nextSetBit(0);
        while (first >= 0) {
            int end =
                    Math.min(
                            free.nextClearBit(first),
                            (first / chunksPerExtent + 1) * chunksPerExtent);
            if (end - first >= count) {
                return first;
            }
            first = free.nextSetBit(end);
        }
        return NONE;
    }

    private void index() {
        freeChunks.clear();
        kept.clear();
        Arrays.fill(hints, (byte) 0);
        for (IntStack stack : candidates) {
            stack.clear();
        }
        indexed = true;
        for (int extent = 0; extent < maps.length; extent++) {
            index(extent);
        }
        keepSome();
    }

    private void index(int extent) {
        show(
                extent,
                new Chunks() {
                    @Override
                    public void free(int chunk) {
                        freeChunks.set(chunk, !avoided.get(chunk));
                    }

                    @Override
                    public void slots(int chunk, int sizeClass, int used) {
                        if (used < SizeClasses.slots(sizeClass) && !avoided.get(chunk)) {
                            candidates[sizeClass].push(chunk);
                        }
                    }
                });
    }

    /// Shows how the chunks of an extent are used, in their order.
    void show(int extent, Chunks seen) {
        int end = (extent + 1) * chunksPerExtent;
        for (int chunk = extent * chunksPerExtent + reserved[extent]; chunk < end; ) {
            long descriptor = descriptorOf(chunk);
            if (kind(descriptor) == KIND_RUN) {
                seen.run(chunk, runChunks(descriptor));
                chunk += runChunks(descriptor);
                continue;
            }
            if (kind(descriptor) == KIND_SLOTS) {
                seen.slots(chunk, sizeClass(descriptor), used(chunk, sizeClass(descriptor)));
            } else {
                seen.free(chunk);
            }
            chunk++;
        }
    }

    private int used(int chunk, int sizeClass) {
        int used = 0;
        for (int word = 0; word < bitmapWords(sizeClass); word++) {
            used += Long.bitCount(words.get(bitmapAt(chunk) + word * 8L));
        }
        return used;
    }

    private boolean isEmpty(int chunk, int sizeClass) {
        for (int word = 0; word < bitmapWords(sizeClass); word++) {
            if (words.get(bitmapAt(chunk) + word * 8L) != 0) {
                return false;
            }
        }
        return true;
    }

    private static int bitmapWords(int sizeClass) {
        return (SizeClasses.slots(sizeClass) + 63) / 64;
    }

    private long descriptorAt(int chunk) {
        return maps[chunk / chunksPerExtent] + chunk % chunksPerExtent * 8L;
    }

    private long bitmapAt(int chunk) {
        return maps[chunk / chunksPerExtent]
                + chunksPerExtent * 8L
                + (long) (chunk % chunksPerExtent) * BITMAP_BYTES;
    }

    /// A chunk's descriptor.
    ///
    /// @throws StoreFailure.Damaged if it is impossible
    private long descriptorOf(int chunk) {
        long descriptor = words.get(descriptorAt(chunk));
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
                    default -> false;
                };
        if (!isPossible) {
            throw new StoreFailure.Damaged(
                    region.name() + ": what is said of chunk " + chunk + " is damaged");
        }
        return descriptor;
    }

    /// Kind (8 bits), generation (24 bits), class or number of chunks (32 bits).
    private static long descriptor(int kind, int size, int generation) {
        return (long) size << 32 | (long) generation << 8 | kind;
    }

    private static int kind(long descriptor) {
        return (int) descriptor & 0xff;
    }

    private static int generation(long descriptor) {
        return (int) (descriptor >>> 8) & Headers.GENERATION_MAX;
    }

    private static int sizeClass(long descriptor) {
        return (int) (descriptor >>> 32);
    }

    private static int runChunks(long descriptor) {
        return (int) (descriptor >>> 32);
    }

    /// A stack of numbers.
    private static final class IntStack {
        private int[] items = new int[8];
        private int size;

        boolean isEmpty() {
            return size == 0;
        }

        int top() {
            return items[size - 1];
        }

        int pop() {
            return items[--size];
        }

        void push(int item) {
            if (size == items.length) {
                items = Arrays.copyOf(items, 2 * size);
            }
            items[size++] = item;
        }

        void pushUnlessTop(int item) {
            if (size == 0 || top() != item) {
                push(item);
            }
        }

        /// Whether this is the only item.
        boolean isAll(int item) {
            for (int i = 0; i < size; i++) {
                if (items[i] != item) {
                    return false;
                }
            }
            return true;
        }

        void clear() {
            size = 0;
        }
    }
}
