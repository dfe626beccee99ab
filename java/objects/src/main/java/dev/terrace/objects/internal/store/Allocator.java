package dev.terrace.objects.internal.store;

import static dev.terrace.objects.internal.store.ChunkMap.KIND_RUN;
import static dev.terrace.objects.internal.store.ChunkMap.KIND_SLOTS;
import static dev.terrace.objects.internal.store.ChunkMap.bitmapWords;
import static dev.terrace.objects.internal.store.ChunkMap.cut;
import static dev.terrace.objects.internal.store.ChunkMap.descriptor;
import static dev.terrace.objects.internal.store.ChunkMap.generation;
import static dev.terrace.objects.internal.store.ChunkMap.isCut;
import static dev.terrace.objects.internal.store.ChunkMap.kind;
import static dev.terrace.objects.internal.store.ChunkMap.runChunks;
import static dev.terrace.objects.internal.store.ChunkMap.sizeClass;
import static dev.terrace.objects.internal.store.ChunkMap.slots;
import static dev.terrace.objects.internal.store.ChunkMap.step;
import static dev.terrace.objects.internal.store.SizeClasses.CHUNK_BYTES;

import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;

/// Allocates parts of a region: slots, into which a chunk is divided evenly or in [Columns], and
/// runs of whole chunks.
///
/// Each extent has a map in persistent memory, which records the parts in use (see [ChunkMap]). The
/// transaction that allocates or frees changes the map, so that both are durable together. In
/// memory, this class keeps only an index for finding room, which is built when it is first needed.
///
/// Invariant: space that a transaction frees is not free before it commits; callers free space only
/// while they commit.
final class Allocator {
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
    private final ChunkMap chunks;

    private boolean indexed;
    private final BitSet freeChunks = new BitSet();

    /// Chunks that may have room: those cut into slots, by their size class, ...
    private final IntStack[] withSlots = new IntStack[SizeClasses.count()];

    /// ... and those cut into columns.
    private final Map<Long, IntStack> withColumns = new HashMap<>();

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

        /// A chunk is cut, and so many of its slots are in use.
        void cut(int chunk, long cut, int used);

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
        chunks = new ChunkMap(words, region);
        chunksPerExtent = chunks.perExtent();
        Arrays.setAll(withSlots, _ -> new IntStack());
    }

    /// Adds an extent, whose map is all zeros.
    void addExtent(long map, long reservedBytes) {
        int extent = chunks.extents();
        hints = Arrays.copyOf(hints, (extent + 1) * chunksPerExtent);
        chunks.addExtent(map, reservedBytes);
        if (indexed) {
            index(extent);
            keepSome();
        }
    }

    /// Removes the last extents, after the transaction that added them was rolled back.
    void keepExtents(int count) {
        chunks.keepExtents(count);
        forgetIndex();
    }

    /// The maps of all extents.
    ChunkMap chunks() {
        return chunks;
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
        long next = chunks.next(from);
        return next == NONE || next >= from + region.extentBytes();
    }

    /// Discards the index, which may be wrong after the transaction was rolled back.
    void forgetIndex() {
        indexed = false;
    }

    /// Throws an exception if so many bytes do not fit into an extent.
    ///
    /// @throws StoreFailure.Full if they do not
    void requireFits(long bytes) {
        long most =
                region.extentBytes() - ChunkMap.mapBytes(region.extentBytes()) - 2 * CHUNK_BYTES;
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
        return begin(
                sizeClass < 0 ? takeRun(chunks(bytes)) : takeSlot(ChunkMap.slotsOf(sizeClass)),
                type);
    }

    /// Allocates an object in columns, as [#allocate(long, int)] does.
    long allocate(Columns columns, int type) {
        if (!indexed) {
            index();
        }
        return begin(takeSlot(ChunkMap.columnsOf(columns.bytes(), type)), type);
    }

    private long begin(long offset, int type) {
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
        long descriptor = chunks.descriptorOf(chunk);
        int generation = hasHeaders ? Headers.generation(words.get(offset)) : 1;
        if (generation == Headers.GENERATION_MAX) {
            return;
        }
        if (kind(descriptor) == KIND_RUN) {
            words.put(chunks.descriptorAt(chunk), descriptor(0, 0, generation));
            if (indexed) {
                freeChunks.set(chunk, chunk + runChunks(descriptor));
                freeChunks.andNot(avoided);
            }
            return;
        }
        long cut = cut(descriptor);
        int slot = (int) (offset % CHUNK_BYTES) / step(cut);
        long at = chunks.bitmapAt(chunk) + slot / 64 * 8;
        long bits = words.get(at);
        words.put(at, bits & ~(1L << slot));
        if (indexed) {
            noteFreed(chunk, cut, slot / 64);
        }
        releaseIfEmpty(chunk, cut);
    }

    private IntStack candidates(long cut) {
        return kind(cut) == KIND_SLOTS
                ? withSlots[sizeClass(cut)]
                : withColumns.computeIfAbsent(cut, _ -> new IntStack());
    }

    private void noteFreed(int chunk, long cut, int word) {
        if (hints[chunk] > word) {
            hints[chunk] = (byte) word;
        }
        if (!avoided.get(chunk)) {
            candidates(cut).pushUnlessTop(chunk);
        }
    }

    /// Gives back a chunk whose last slot has been freed, if another chunk that is cut alike has
    /// room. It must happen in the same commit, before anything overwrites the slots' headers.
    private void releaseIfEmpty(int chunk, long cut) {
        boolean isLast = indexed && candidates(cut).isAll(chunk);
        if (isLast || !chunks.isEmpty(chunk, cut)) {
            return;
        }
        int generation = nextGeneration(chunk);
        if (generation > Headers.GENERATION_MAX) {
            return;
        }
        words.put(chunks.descriptorAt(chunk), descriptor(0, 0, generation));
        if (indexed && !avoided.get(chunk)) {
            freeChunks.set(chunk);
        }
    }

    /// Marks chunks as free in `released` that are divided into slots and are empty, both in the
    /// committed state and in the present transaction; at most as many as fit into a log.
    void releaseEmpty(Overlay released) {
        for (int extent = 0; extent < chunks.extents(); extent++) {
            int end = (extent + 1) * chunksPerExtent;
            for (int chunk = extent * chunksPerExtent + chunks.reserved(extent);
                    chunk < end;
                    chunk++) {
                long descriptor = chunks.descriptorOf(chunk);
                if (kind(descriptor) == KIND_RUN) {
                    chunk += runChunks(descriptor) - 1;
                } else if (isCut(descriptor)
                        && released.size() < RELEASED_MAX
                        && isUntouched(chunk)) {
                    int generation = nextGeneration(chunk);
                    if (generation <= Headers.GENERATION_MAX) {
                        released.put(chunks.descriptorAt(chunk), descriptor(0, 0, generation));
                    }
                }
            }
        }
    }

    /// Whether a chunk is empty, and the present transaction has not changed it.
    private boolean isUntouched(int chunk) {
        boolean same = !words.isChanged(chunks.descriptorAt(chunk));
        int count = bitmapWords(chunks.descriptorOf(chunk));
        for (int word = 0; same && word < count; word++) {
            long at = chunks.bitmapAt(chunk) + word * 8L;
            same = words.get(at) == 0 && !words.isChanged(at);
        }
        return same;
    }

    /// Bytes of chunks that are free.
    long freeBytes() {
        if (!indexed) {
            index();
        }
        return (long) freeChunks.cardinality() * CHUNK_BYTES;
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
                        chunks.extents() * chunksPerExtent / KEPT_OF_ALL);
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

    private long takeSlot(long cut) {
        IntStack stack = candidates(cut);
        while (true) {
            while (!stack.isEmpty()) {
                int chunk = stack.top();
                long offset = takeSlotOf(chunk, cut);
                if (offset != NONE) {
                    return offset;
                }
                stack.pop();
            }
            int chunk = takeChunk();
            if (chunk == NONE) {
                return NONE;
            }
            divide(chunk, cut);
            stack.push(chunk);
        }
    }

    private long takeSlotOf(int chunk, long cut) {
        if (cut(chunks.descriptorOf(chunk)) != cut) {
            return NONE; // It has been divided anew since.
        }
        int slots = slots(cut);
        for (int word = hints[chunk]; word < bitmapWords(cut); word++) {
            long at = chunks.bitmapAt(chunk) + word * 8L;
            long bits = words.get(at);
            int slot = word * 64 + Long.numberOfTrailingZeros(~bits);
            if (bits != -1L && slot < slots) {
                words.put(at, bits | 1L << slot);
                hints[chunk] = (byte) word;
                return (long) chunk * CHUNK_BYTES + (long) slot * step(cut);
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

    /// Cuts a free chunk into slots, whose generations are higher than any before.
    private void divide(int chunk, long cut) {
        int generation = nextGeneration(chunk);
        long begin = (long) chunk * CHUNK_BYTES;
        for (int slot = 0; slot < slots(cut); slot++) {
            generation = atLeastThatAt(begin + (long) slot * step(cut), generation);
        }
        words.put(chunks.descriptorAt(chunk), cut | descriptor(0, 0, generation));
        hints[chunk] = 0;
        if (hasHeaders) {
            long offset = begin;
            for (int slot = 0; slot < slots(cut); slot++, offset += step(cut)) {
                region.putLong(offset, Headers.of(secret, offset, Headers.FREE, generation));
                region.flush(offset, Headers.BYTES);
            }
        }
    }

    /// A generation, or that of a header in its place, if that one is higher: objects may have been
    /// rolled back there together with their chunk, and a program may have handles of them.
    private int atLeastThatAt(long offset, int generation) {
        long header = hasHeaders ? region.getLong(offset) : 0;
        return hasHeaders && Headers.belongs(secret, offset, header)
                ? Math.max(generation, Headers.generation(header))
                : generation;
    }

    private int nextGeneration(int chunk) {
        long descriptor = chunks.descriptorOf(chunk);
        int generation = Math.max(1, generation(descriptor));
        if (hasHeaders && isCut(descriptor)) {
            long offset = (long) chunk * CHUNK_BYTES;
            for (int slot = 0; slot < slots(descriptor); slot++, offset += step(descriptor)) {
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
        generation = atLeastThatAt((long) first * CHUNK_BYTES, generation);
        words.put(chunks.descriptorAt(first), descriptor(KIND_RUN, count, generation));
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
        for (IntStack stack : withSlots) {
            stack.clear();
        }
        withColumns.clear();
        indexed = true;
        for (int extent = 0; extent < chunks.extents(); extent++) {
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
                    public void cut(int chunk, long cut, int used) {
                        if (used < slots(cut) && !avoided.get(chunk)) {
                            candidates(cut).push(chunk);
                        }
                    }
                });
    }

    /// Shows how the chunks of an extent are used, in their order.
    void show(int extent, Chunks seen) {
        int end = (extent + 1) * chunksPerExtent;
        for (int chunk = extent * chunksPerExtent + chunks.reserved(extent); chunk < end; ) {
            long descriptor = chunks.descriptorOf(chunk);
            if (kind(descriptor) == KIND_RUN) {
                seen.run(chunk, runChunks(descriptor));
                chunk += runChunks(descriptor);
                continue;
            }
            if (isCut(descriptor)) {
                seen.cut(chunk, cut(descriptor), chunks.used(chunk, descriptor));
            } else {
                seen.free(chunk);
            }
            chunk++;
        }
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
