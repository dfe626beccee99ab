package dev.terrace.objects.internal.store;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import dev.terrace.objects.PoolFullException;
import dev.terrace.objects.TerraceException;
import dev.terrace.objects.TierUnavailableException;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/// The remote tier of a pool: values in segments, each of which is written once.
///
/// What a transaction puts here waits in memory; the commit writes it as a segment, or several,
/// before its words go to the log. A slot leads to the *record* of a value in persistent memory,
/// which says in which segment it is and where, and that to the record of the segment, which says
/// how much of it is still in use. So nothing is listed or scanned, and a value moves to another
/// segment without its slot.
///
/// Invariants:
/// * A number of a segment is taken, durably, before the segment is written, and never again. Those
///   below [Superblock#REMOTE_SETTLED_AT] belong to a transaction that has committed, or have been
///   deleted: those from there on, and no others, may have been left by one that has not.
/// * A segment that holds nothing any more is deleted only after the commit that says so, and its
///   record goes after it.
public final class Remote {
    /// Bytes of a value's record, and of a segment's.
    static final int RECORD_BYTES = 32;

    private static final int SEGMENT_AT = 8;
    private static final int PLACE_AT = 16;
    private static final int CHECKSUM_AT = 24;

    private static final int NUMBER_AT = 8;
    private static final int BYTES_AT = 16;
    private static final int NEXT_AT = 24;

    /// A transaction's values go to a segment of their own as soon as they take so many bytes.
    private static final int SEGMENT_BYTES = 16 << 20;

    private static final int CACHE_BYTES = 8 << 20;

    /// Values that are moved in one transaction.
    private static final int MOVED_AT_ONCE = 1000;

    /// What is smaller is put together with others: less than a transaction of [#MOVED_AT_ONCE] of
    /// the smallest values makes.
    private static final int SMALL_BYTES = 16_000;

    private static final int NUMBER_BITS = 40;

    /// The first segment is the label of the directory.
    private static final long LABEL = 0;

    private final Store store;
    private final Region pmem;
    private final UUID pool;
    private final Store.@Nullable RemoteTier tier;
    private final SegmentCache cache = new SegmentCache(CACHE_BYTES);

    /// What the transaction has put and is in no segment yet, by the values' records.
    private final Map<Long, byte[]> pending = new LinkedHashMap<>();

    private long pendingBytes;
    private boolean hasSegments;
    private boolean empties;

    /// What a use of the store of segments gives.
    private interface Use<T extends @Nullable Object> {
        T get(SegmentStore segments) throws IOException;
    }

    Remote(Store store, Region pmem, UUID pool, Store.@Nullable RemoteTier tier) {
        this.store = store;
        this.pmem = pmem;
        this.pool = pool;
        this.tier = tier;
    }

    /// Whether it has a place: a store of segments was named when the pool was opened.
    public boolean isThere() {
        return tier != null;
    }

    /// Bytes of all segments.
    long bytes() {
        return store.word(Superblock.REMOTE_BYTES_AT);
    }

    /// Bytes of them that are in use.
    long liveBytes() {
        return store.word(Superblock.REMOTE_LIVE_AT);
    }

    // Opening

    /// Looks whether the segments are this pool's. If that cannot be found out now, whoever uses
    /// them is told.
    ///
    /// @throws PoolFormatException if there are none, or others
    void open() {
        if (tier == null || store.word(Superblock.REMOTE_NEXT_AT) == 0) {
            return;
        }
        try {
            String wrong =
                    use(segments -> {
                        try {
                            return Segment.wrong(
                                    segments.read(name(LABEL), 0, Segment.HEADER_BYTES),
                                    pool,
                                    LABEL);
                        } catch (NoSuchFileException e) {
                            return "there is no " + name(LABEL);
                        } catch (EOFException e) {
                            return name(LABEL) + " is cut off";
                        }
                    });
            if (wrong != null) {
                throw new PoolFormatException(
                        tier.segments().name()
                                + " is not where this pool's segments are: "
                                + wrong);
            }
        } catch (TierUnavailableException later) {
            return;
        }
    }

    /// Has a pool that is to be written know that it has a remote tier, and takes up what the last
    /// writer has left.
    void prepare() {
        if (tier == null) {
            return;
        }
        Feature.REMOTE.addTo(pmem);
        keepReserve();
        // Segments of a transaction that is under way are none that somebody has left.
        store.alone(() -> {
            if (!hasSegments) {
                abandon();
            }
            return true;
        });
        removeEmpty();
    }

    /// Keeps a chunk of persistent memory, if there is one, for records of values that leave it
    /// when it is full.
    public void keepReserve() {
        if (tier == null) {
            return;
        }
        try {
            store.transact(() -> {
                if (store.word(Superblock.REMOTE_RESERVE_AT) == 0) {
                    long chunk = store.allocate(SizeClasses.CHUNK_BYTES, Headers.BUFFER);
                    store.putWord(0, Superblock.REMOTE_RESERVE_AT, chunk);
                }
                return true;
            });
        } catch (PoolFullException full) {
            return;
        }
    }

    /// Gives that chunk back, for somebody who moves values away.
    public void releaseReserve() {
        if (tier != null) {
            store.transact(() -> {
                long chunk = store.word(Superblock.REMOTE_RESERVE_AT);
                if (chunk != 0) {
                    store.putWord(0, Superblock.REMOTE_RESERVE_AT, 0);
                    store.free(chunk);
                }
                return true;
            });
        }
    }

    // Values

    /// Puts a value, and returns where its record is. In a transaction.
    long put(byte[] bytes) {
        if (tier == null) {
            throw new IllegalArgumentException(
                    "the pool has no tier " + dev.terrace.objects.StorageTier.REMOTE);
        }
        long wanted = Segment.FRONT_BYTES + (long) bytes.length;
        long then = bytes() + pendingBytes + wanted + Segment.HEADER_BYTES;
        if (then > tier.bytesMax() || wanted > Integer.MAX_VALUE - 2 * Segment.HEADER_BYTES) {
            throw new PoolFullException(
                    tier.segments().name()
                            + " has no room for "
                            + bytes.length
                            + " bytes: segments take "
                            + bytes()
                            + " bytes of "
                            + tier.bytesMax());
        }
        if (pendingBytes + wanted > SEGMENT_BYTES) {
            seal();
        }
        long value = store.allocate(RECORD_BYTES, Headers.VALUE);
        store.putWord(value, value + PLACE_AT, bytes.length);
        hold(value, bytes.clone());
        return value;
    }

    private void hold(long value, byte[] bytes) {
        pending.put(value, bytes);
        pendingBytes += Segment.FRONT_BYTES + bytes.length;
    }

    /// Frees a value, once the transaction commits.
    void free(long value) {
        requireValue(value);
        byte[] unsealed = pending.remove(value);
        if (unsealed == null) {
            leave(value);
        } else {
            pendingBytes -= Segment.FRONT_BYTES + unsealed.length;
        }
        store.free(value);
    }

    /// Its segment holds a value no more.
    private void leave(long value) {
        long segment = segmentOf(value);
        long bytes = Segment.FRONT_BYTES + (long) length(value);
        long left = store.word(segment + BYTES_AT) - bytes;
        if (bytes < 0 || (int) left < 0) {
            throw damaged(value);
        }
        store.putWord(segment, segment + BYTES_AT, left);
        store.putWord(0, Superblock.REMOTE_LIVE_AT, liveBytes() - bytes);
        if ((int) left == 0) {
            store.putWord(segment, segment + NEXT_AT, store.word(Superblock.REMOTE_EMPTY_AT));
            store.putWord(0, Superblock.REMOTE_EMPTY_AT, segment);
            if (!empties) {
                empties = true;
                store.afterCommit(this::removeEmpty);
            }
        }
    }

    /// How many bytes a value has.
    int length(long value) {
        requireValue(value);
        return (int) store.word(value + PLACE_AT);
    }

    /// A value. In a transaction or a consistent read.
    ///
    /// @throws TierUnavailableException if it cannot be read now
    /// @throws PoolDamagedException if it is not what was written
    byte[] load(long value) {
        requireValue(value);
        byte[] unsealed = store.inTransaction() ? pending.get(value) : null;
        if (unsealed != null) {
            return unsealed.clone();
        }
        long segment = segmentOf(value);
        long number = store.word(segment + NUMBER_AT);
        long place = store.word(value + PLACE_AT);
        int length = (int) place;
        long offset = place >>> 32;
        if (length < 0
                || offset + Segment.FRONT_BYTES + length > store.word(segment + BYTES_AT) >>> 32) {
            throw damaged(value);
        }
        int checksum = (int) store.word(value + CHECKSUM_AT);
        byte[] known = cache.get(number, offset);
        if (known != null && known.length == length && Segment.crc(known) == checksum) {
            return known;
        }
        Events.SegmentRead event = new Events.SegmentRead();
        event.begin();
        byte[] bytes = read(number, offset, length, checksum);
        event.end(pmem.name(), number, length);
        cache.put(number, offset, bytes);
        return bytes;
    }

    private PoolDamagedException damaged(long value) {
        return new PoolDamagedException(
                pmem.name() + ": the record of a value at offset " + value + " is damaged");
    }

    private byte[] read(long number, long offset, int length, int checksum) {
        return use(segments -> {
            String name = segments.name() + "/" + name(number);
            try {
                byte[] part = segments.read(name(number), offset, Segment.FRONT_BYTES + length);
                byte[] bytes = Segment.value(part, checksum);
                if (bytes == null) {
                    String wrong =
                            Segment.wrong(
                                    segments.read(name(number), 0, Segment.HEADER_BYTES),
                                    pool,
                                    number);
                    throw new PoolDamagedException(
                            name
                                    + ": "
                                    + length
                                    + " bytes at offset "
                                    + offset
                                    + " are damaged"
                                    + (wrong == null ? "" : ": " + wrong));
                }
                return bytes;
            } catch (NoSuchFileException e) {
                throw new PoolDamagedException(name + " is missing", e);
            } catch (EOFException e) {
                throw new PoolDamagedException(
                        name + " is cut off: it ends before offset " + (offset + length), e);
            }
        });
    }

    /// Whether the record of a value begins at `offset`.
    public boolean isValue(long offset) {
        return Headers.type(store.header(offset)) == Headers.VALUE && store.hasHeader(offset);
    }

    private void requireValue(long offset) {
        if (!isValue(offset)) {
            throw new PoolDamagedException(
                    pmem.name() + ": there is no record of a value at offset " + offset);
        }
    }

    private long segmentOf(long value) {
        long segment = store.word(value + SEGMENT_AT);
        if (!isSegment(segment)) {
            throw damaged(value);
        }
        return segment;
    }

    private boolean isSegment(long offset) {
        return Headers.type(store.header(offset)) == Headers.SEGMENT && store.hasHeader(offset);
    }

    // Numbers of segments in the superblock: what they lead to is deleted, so they carry a
    // checksum.

    /// The word of a number: it, and in the upper 24 bits its checksum.
    static long checked(long number) {
        byte[] bytes =
                ByteBuffer.allocate(Long.BYTES)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putLong(number)
                        .array();
        return (long) Segment.crc(bytes) << NUMBER_BITS | number;
    }

    private long number(long at) {
        long word = pmem.getLong(at);
        long number = word & (1L << NUMBER_BITS) - 1;
        if (word != 0 && word != checked(number)) {
            throw damagedWords();
        }
        return number;
    }

    private PoolDamagedException damagedWords() {
        return new PoolDamagedException(pmem.name() + ": the words of the remote tier are damaged");
    }

    // Segments

    /// Writes what the transaction has put as a segment, durably.
    ///
    /// @throws TierUnavailableException if that cannot be done now
    void seal() {
        if (pending.isEmpty()) {
            return;
        }
        if (!hasSegments) {
            removeOrphans();
            hasSegments = true;
            store.afterRollback(this::abandon);
        }
        long segment = store.allocate(RECORD_BYTES, Headers.SEGMENT);
        long number = LABEL;
        byte[] bytes;
        try {
            number = takeNumber();
            bytes = Segment.of(pool, number, pending.values());
            write(number, bytes);
        } catch (PoolFullException full) {
            // The transaction may go on, with the value elsewhere, and commit: others would not
            // know of what is half written.
            store.free(segment);
            if (number != LABEL) {
                delete(number);
            }
            throw full;
        }
        long live = bytes.length - Segment.HEADER_BYTES;
        store.putWord(segment, segment + NUMBER_AT, number);
        store.putWord(segment, segment + BYTES_AT, (long) bytes.length << 32 | live);
        long offset = Segment.HEADER_BYTES;
        for (Map.Entry<Long, byte[]> each : pending.entrySet()) {
            long value = each.getKey();
            store.putWord(value, value + SEGMENT_AT, segment);
            store.putWord(value, value + PLACE_AT, offset << 32 | each.getValue().length);
            store.putWord(value, value + CHECKSUM_AT, Segment.crc(each.getValue()) & 0xffffffffL);
            offset += Segment.FRONT_BYTES + each.getValue().length;
        }
        store.putWord(0, Superblock.REMOTE_BYTES_AT, bytes() + bytes.length);
        store.putWord(0, Superblock.REMOTE_LIVE_AT, liveBytes() + live);
        store.putWord(0, Superblock.REMOTE_SETTLED_AT, checked(number + 1));
        pending.clear();
        pendingBytes = 0;
    }

    private void write(long number, byte[] bytes) {
        Events.SegmentWrite event = new Events.SegmentWrite();
        event.begin();
        boolean[] isRepeated = {false};
        use(segments -> {
            try {
                if (isRepeated[0]) {
                    // An interrupt has left a part of it.
                    segments.delete(name(number));
                }
                isRepeated[0] = true;
                segments.write(name(number), bytes);
                return true;
            } catch (FileAlreadyExistsException e) {
                // It is not for this pool to delete.
                removeOrphans(number);
                storeNow(Superblock.REMOTE_SETTLED_AT, number + 1);
                throw new PoolFormatException(
                        segments.name()
                                + "/"
                                + name(number)
                                + " is there already: a copy of this pool writes to the same"
                                + " directory",
                        e);
            }
        });
        event.end(pmem.name(), number, bytes.length);
    }

    /// The number of the next segment, which is no other's from now on.
    private long takeNumber() {
        long next = number(Superblock.REMOTE_NEXT_AT);
        if (next == LABEL) {
            byte[] label = Segment.of(pool, LABEL, List.of());
            use(segments -> {
                // One that was not finished.
                segments.delete(name(LABEL));
                segments.write(name(LABEL), label);
                return true;
            });
            storeNow(Superblock.REMOTE_SETTLED_AT, LABEL + 1);
            next = LABEL + 1;
        }
        storeNow(Superblock.REMOTE_NEXT_AT, next + 1);
        return next;
    }

    /// Stores a number that only who writes looks at, and no transaction has changed: it lasts
    /// whatever becomes of that.
    private void storeNow(long at, long number) {
        pmem.putLong(at, checked(number));
        pmem.flush(at, Long.BYTES);
        pmem.fence();
    }

    /// Deletes segments of transactions that have not committed.
    private void removeOrphans() {
        removeOrphans(number(Superblock.REMOTE_NEXT_AT));
    }

    /// The same, as far as their numbers are below `end`.
    private void removeOrphans(long end) {
        long settled = Math.max(LABEL + 1, number(Superblock.REMOTE_SETTLED_AT));
        for (long number = settled; number < end; number++) {
            delete(number);
        }
        if (settled < end) {
            storeNow(Superblock.REMOTE_SETTLED_AT, end);
        }
    }

    /// What a transaction has written that did not commit goes now, or when the tier can be
    /// reached.
    private void abandon() {
        try {
            removeOrphans();
        } catch (TierUnavailableException later) {
            return;
        }
    }

    private void delete(long number) {
        use(segments -> {
            segments.delete(name(number));
            return true;
        });
    }

    /// Deletes segments that hold nothing any more, and then their records; or leaves that to a
    /// later one if the tier cannot be reached.
    private void removeEmpty() {
        try {
            boolean more = tier != null;
            while (more) {
                more = store.alone(this::removeFirstEmpty);
            }
        } catch (TierUnavailableException later) {
            return;
        }
    }

    /// While no other thread writes. Whether there was one.
    private boolean removeFirstEmpty() {
        long empty = store.word(Superblock.REMOTE_EMPTY_AT);
        if (empty == 0) {
            return false;
        }
        if (!isSegment(empty) || (int) store.word(empty + BYTES_AT) != 0) {
            throw damagedWords();
        }
        delete(store.word(empty + NUMBER_AT));
        return store.transact(() -> {
            store.putWord(
                    0, Superblock.REMOTE_BYTES_AT, bytes() - (store.word(empty + BYTES_AT) >>> 32));
            store.putWord(0, Superblock.REMOTE_EMPTY_AT, store.word(empty + NEXT_AT));
            store.free(empty);
            return true;
        });
    }

    /// The transaction is over.
    void forget() {
        pending.clear();
        pendingBytes = 0;
        hasSegments = false;
        empties = false;
    }

    // Looking at all of it

    /// Shows the records of segments, and the chunk that is kept.
    void links(Links links) {
        if (store.word(Superblock.REMOTE_RESERVE_AT) != 0) {
            links.owned(store.word(Superblock.REMOTE_RESERVE_AT));
        }
        forEach(Headers.SEGMENT, links::owned);
    }

    /// Says of each segment whose records of values do not come to what its own says what is wrong
    /// with it.
    public List<String> wrong() {
        Map<Long, Long> live = new LinkedHashMap<>();
        forEach(
                Headers.SEGMENT,
                segment -> live.put(segment, store.word(segment + BYTES_AT) & 0xffffffffL));
        forEach(
                Headers.VALUE,
                value -> {
                    live.merge(
                            store.word(value + SEGMENT_AT),
                            -Segment.FRONT_BYTES - (long) (int) store.word(value + PLACE_AT),
                            Long::sum);
                });
        List<String> wrong = new ArrayList<>();
        live.forEach((segment, difference) -> {
            if (difference != 0) {
                wrong.add(
                        "segment at "
                                + segment
                                + ": the bytes that it holds are not what its record says");
            }
        });
        return wrong;
    }

    private void forEach(int type, LongConsumer look) {
        for (long at = store.nextAllocated(0); at >= 0; at = store.nextAllocated(at + 1)) {
            if (Headers.type(store.word(at)) == type) {
                look.accept(at);
            }
        }
    }

    // Compaction

    /// What compaction has done.
    ///
    /// @param values that were moved to other segments
    /// @param bytes of these
    /// @param bytesGivenBack by how much segments have become less
    public record Compacted(long values, long bytes, long bytesGivenBack) {}

    /// Moves the values of segments that are mostly empty, or small, to new ones, in transactions
    /// of their own, and deletes those segments. What has been moved stays moved if it ends before
    /// it is done.
    ///
    /// @throws TierUnavailableException if the tier cannot be reached
    public Compacted compact() {
        if (tier == null) {
            return new Compacted(0, 0, 0);
        }
        removeEmpty();
        long before = bytes();
        Set<Long> sparse = sparse();
        List<Long> found = new ArrayList<>();
        forEach(
                Headers.VALUE,
                value -> {
                    if (sparse.contains(store.word(value + SEGMENT_AT))) {
                        found.add(value);
                    }
                });
        long values = 0;
        long bytes = 0;
        try {
            for (int from = 0; from < found.size(); from += MOVED_AT_ONCE) {
                List<Long> some = found.subList(from, Math.min(found.size(), from + MOVED_AT_ONCE));
                List<Integer> moved = store.transact(() -> move(some, sparse));
                values += moved.size();
                bytes += moved.stream().mapToLong(Integer::longValue).sum();
            }
        } catch (PoolFullException noRoomForMore) {
            // What has been moved stays moved.
            return new Compacted(values, bytes, before - bytes());
        }
        return new Compacted(values, bytes, before - bytes());
    }

    /// Moves values that are still in such segments, and returns how many bytes each has.
    private List<Integer> move(List<Long> values, Set<Long> from) {
        List<Integer> moved = new ArrayList<>();
        for (long value : values) {
            // Others may have freed it meanwhile.
            byte[] bytes =
                    isValue(value) && from.contains(store.word(value + SEGMENT_AT))
                            ? loadToMove(value)
                            : null;
            if (bytes != null) {
                leave(value);
                if (pendingBytes + bytes.length > SEGMENT_BYTES) {
                    seal();
                }
                hold(value, bytes);
                moved.add(bytes.length);
            }
        }
        return moved;
    }

    /// A value; null if it is damaged: it stays where it is, for a look at all of the pool to tell.
    private byte @Nullable [] loadToMove(long value) {
        try {
            return load(value);
        } catch (PoolDamagedException damaged) {
            return null;
        }
    }

    /// Segments that are worth it.
    private Set<Long> sparse() {
        Set<Long> sparse = new HashSet<>();
        Set<Long> small = new HashSet<>();
        forEach(
                Headers.SEGMENT,
                segment -> {
                    long bytes = store.word(segment + BYTES_AT);
                    long live = bytes & 0xffffffffL;
                    if (live > 0 && 2 * live < bytes >>> 32) {
                        sparse.add(segment);
                    } else if (live > 0 && bytes >>> 32 < SMALL_BYTES) {
                        small.add(segment);
                    }
                });
        if (sparse.size() + small.size() > 1) {
            sparse.addAll(small);
        }
        return sparse;
    }

    // Access

    private String name(long number) {
        return Segment.name(pool, number);
    }

    /// Uses the store of segments, also in a thread that is interrupted, and leaves it interrupted
    /// then.
    private <T extends @Nullable Object> T use(Use<T> use) {
        if (tier == null) {
            throw new TierUnavailableException(
                    pmem.name() + " has values on a remote tier: name it when the pool is opened",
                    null);
        }
        try {
            return WriterLock.atTier(() -> Uninterrupted.run(() -> use.get(tier.segments())));
        } catch (TerraceException e) {
            throw e;
        } catch (IOException | RuntimeException e) {
            throw new TierUnavailableException(
                    tier.segments().name() + " cannot be reached: " + e, e);
        }
    }
}
