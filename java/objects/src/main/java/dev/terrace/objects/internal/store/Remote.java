package dev.terrace.objects.internal.store;

import java.io.EOFException;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.LongConsumer;
import org.jspecify.annotations.Nullable;

/// The remote tier of a pool: values in segments, each of which is written once.
///
/// The values of a transaction wait in memory; the commit writes them as one or more segments
/// before its words go to the log. A slot leads to the *record* of a value in persistent memory,
/// which holds the value's segment and place. That record leads to the record of the segment, which
/// counts the bytes in use. Therefore segments are never listed or scanned, and a value can move to
/// another segment while its slot stays the same.
///
/// Invariants:
/// * A segment's number is taken, durably, before the segment is written, and is never taken again.
///   Segments below [Superblock#REMOTE_SETTLED_AT] belong to a committed transaction or have been
///   deleted. Only segments from there on may be left over from a transaction that did not commit.
/// * An empty segment is deleted only after the commit that emptied it, and its record is freed
///   after the segment.
public final class Remote {
    /// Bytes of a value's record, and of a segment's.
    static final int RECORD_BYTES = 32;

    static final int SEGMENT_AT = 8;
    private static final int PLACE_AT = 16;
    private static final int CHECKSUM_AT = 24;

    private static final int NUMBER_AT = 8;
    static final int BYTES_AT = 16;
    private static final int NEXT_AT = 24;

    /// A transaction's values are written as a segment as soon as they take so many bytes.
    private static final int SEGMENT_BYTES = 16 << 20;

    /// The first segment is the label of the directory.
    private static final long LABEL = 0;

    private final Store store;
    private final Region pmem;
    private final UUID pool;
    private final Store.@Nullable RemoteTier tier;
    private final SegmentNumbers numbers;
    final SegmentCache cache = new SegmentCache();

    /// The values of the transaction that are not in a segment yet, by their records.
    private final Map<Long, byte[]> pending = new LinkedHashMap<>();

    private long pendingBytes;
    private boolean hasSegments;
    private boolean empties;

    /// A use of the store of segments.
    private interface Use<T extends @Nullable Object> {
        T get(Segments segments) throws IOException;
    }

    Remote(Store store, Region pmem, UUID pool, Store.@Nullable RemoteTier tier) {
        this.store = store;
        this.pmem = pmem;
        numbers = new SegmentNumbers(pmem);
        this.pool = pool;
        this.tier = tier;
    }

    /// Whether a store of segments was given when the pool was opened.
    public boolean isThere() {
        return tier != null;
    }

    /// Bytes of all segments.
    long bytes() {
        return store.word(Superblock.REMOTE_BYTES_AT);
    }

    /// Bytes of segments that are in use.
    long liveBytes() {
        return store.word(Superblock.REMOTE_LIVE_AT);
    }

    // Opening

    /// Checks that the segments belong to this pool. If that is not possible now, the first use of
    /// them reports it.
    ///
    /// @throws StoreFailure.UnknownFormat if there are none, or they belong to another pool
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
                throw new StoreFailure.UnknownFormat(
                        tier.segments().name()
                                + " is not where this pool's segments are: "
                                + wrong);
            }
        } catch (StoreFailure.Unavailable later) {
            return;
        }
    }

    /// Marks a pool that is open for writing as one with a remote tier, and cleans up after the
    /// last writer.
    void prepare() {
        if (tier == null) {
            return;
        }
        Feature.REMOTE.addTo(pmem);
        keepReserve();
        // Segments of a running transaction are not left over.
        store.alone(() -> {
            if (!hasSegments) {
                abandon();
            }
            return true;
        });
        removeEmpty();
    }

    /// Reserves a chunk of persistent memory, if one is free, for records of values that leave
    /// persistent memory when it is full.
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
        } catch (StoreFailure.Full full) {
            return;
        }
    }

    /// Gives that chunk back, so that values can be moved away.
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

    /// Puts a value, and returns the offset of its record. In a transaction.
    long put(byte[] bytes) {
        if (tier == null) {
            throw new IllegalArgumentException("the pool has no tier " + Medium.REMOTE);
        }
        long wanted = Segment.FRONT_BYTES + (long) bytes.length;
        long then = bytes() + pendingBytes + wanted + Segment.HEADER_BYTES;
        if (then > tier.bytesMax() || wanted > Integer.MAX_VALUE - 2 * Segment.HEADER_BYTES) {
            throw new StoreFailure.Full(
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

    void hold(long value, byte[] bytes) {
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

    /// Removes a value from its segment's counts.
    void leave(long value) {
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

    /// The number of bytes of a value.
    int length(long value) {
        requireValue(value);
        return (int) store.word(value + PLACE_AT);
    }

    /// Reads a value. In a transaction or a consistent read.
    ///
    /// @throws StoreFailure.Unavailable if it cannot be read now
    /// @throws StoreFailure.Damaged if it is damaged
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
        store.usage().segmentRead(length);
        cache.put(number, offset, bytes);
        return bytes;
    }

    private StoreFailure.Damaged damaged(long value) {
        return new StoreFailure.Damaged(
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
                    throw new StoreFailure.Damaged(
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
                throw new StoreFailure.Damaged(name + " is missing", e);
            } catch (EOFException e) {
                throw new StoreFailure.Damaged(
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
            throw new StoreFailure.Damaged(
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

    // Segments

    /// Writes the values of the transaction as a segment, durably.
    ///
    /// @throws StoreFailure.Unavailable if that cannot be done now
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
        } catch (StoreFailure.Full full) {
            // The transaction may continue, with the value elsewhere, and commit; no record would
            // then lead to the half-written segment.
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
        store.putWord(0, Superblock.REMOTE_SETTLED_AT, SegmentNumbers.checked(number + 1));
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
                    // An interrupt has left a part of the segment.
                    segments.delete(name(number));
                }
                isRepeated[0] = true;
                segments.write(name(number), bytes);
                return true;
            } catch (FileAlreadyExistsException e) {
                // This pool must not delete it.
                removeOrphans(number);
                numbers.storeNow(Superblock.REMOTE_SETTLED_AT, number + 1);
                throw new StoreFailure.UnknownFormat(
                        segments.name()
                                + "/"
                                + name(number)
                                + " is there already: a copy of this pool writes to the same"
                                + " directory",
                        e);
            }
        });
        event.end(pmem.name(), number, bytes.length);
        store.usage().segmentWritten(bytes.length);
    }

    /// Takes the number of the next segment.
    private long takeNumber() {
        long next = numbers.get(Superblock.REMOTE_NEXT_AT);
        if (next == LABEL) {
            byte[] label = Segment.of(pool, LABEL, List.of());
            use(segments -> {
                // Removes an unfinished label.
                segments.delete(name(LABEL));
                segments.write(name(LABEL), label);
                return true;
            });
            numbers.storeNow(Superblock.REMOTE_SETTLED_AT, LABEL + 1);
            next = LABEL + 1;
        }
        numbers.storeNow(Superblock.REMOTE_NEXT_AT, next + 1);
        return next;
    }

    /// Deletes segments of transactions that did not commit.
    private void removeOrphans() {
        removeOrphans(numbers.get(Superblock.REMOTE_NEXT_AT));
    }

    /// The same, for segments with numbers below `end`.
    private void removeOrphans(long end) {
        long settled = Math.max(LABEL + 1, numbers.get(Superblock.REMOTE_SETTLED_AT));
        for (long number = settled; number < end; number++) {
            delete(number);
        }
        if (settled < end) {
            numbers.storeNow(Superblock.REMOTE_SETTLED_AT, end);
        }
    }

    /// Deletes the segments of a transaction that did not commit, now or when the tier can be
    /// reached.
    private void abandon() {
        try {
            removeOrphans();
        } catch (StoreFailure.Unavailable later) {
            return;
        }
    }

    private void delete(long number) {
        use(segments -> {
            segments.delete(name(number));
            return true;
        });
    }

    /// Deletes empty segments, and then their records. If the tier cannot be reached, a later call
    /// does it.
    void removeEmpty() {
        try {
            removeEmpty(tier != null);
        } catch (StoreFailure.Unavailable later) {
            return;
        }
    }

    private void removeEmpty(boolean more) {
        while (more && store.alone(this::removeFirstEmpty)) {
            continue;
        }
    }

    /// Deletes all segments that no later transaction will delete, as there is none.
    void settle() {
        removeOrphans();
        removeEmpty(true);
    }

    /// Deletes one empty segment while no other thread writes, and returns whether there was one.
    private boolean removeFirstEmpty() {
        long empty = store.word(Superblock.REMOTE_EMPTY_AT);
        if (empty == 0) {
            return false;
        }
        if (!isSegment(empty) || (int) store.word(empty + BYTES_AT) != 0) {
            throw numbers.damaged();
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

    /// Ends the transaction.
    void forget() {
        pending.clear();
        pendingBytes = 0;
        hasSegments = false;
        empties = false;
    }

    // Checks

    /// Shows the records of segments, and the reserved chunk.
    void links(Links links) {
        if (store.word(Superblock.REMOTE_RESERVE_AT) != 0) {
            links.owned(store.word(Superblock.REMOTE_RESERVE_AT));
        }
        forEach(Headers.SEGMENT, links::owned);
    }

    /// Reports each segment whose record does not match the records of its values.
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

    void forEach(int type, LongConsumer look) {
        for (long at = store.parts().nextAllocated(0);
                at >= 0;
                at = store.parts().nextAllocated(at + 1)) {
            if (Headers.type(store.word(at)) == type) {
                look.accept(at);
            }
        }
    }

    /// Compacts the segments: see [RemoteCompaction].
    ///
    /// @throws StoreFailure.Unavailable if the tier cannot be reached
    public RemoteCompaction.Result compact() {
        return tier == null
                ? new RemoteCompaction.Result(0, 0, 0)
                : new RemoteCompaction(store, this).run();
    }

    /// Whether the values that wait and so many bytes more are too many for one segment.
    boolean fillsSegment(int moreBytes) {
        return pendingBytes + moreBytes > SEGMENT_BYTES;
    }

    // Access

    private String name(long number) {
        return Segment.name(pool, number);
    }

    /// Uses the store of segments, also in an interrupted thread, which stays interrupted.
    private <T extends @Nullable Object> T use(Use<T> use) {
        if (tier == null) {
            throw new StoreFailure.Unavailable(
                    pmem.name() + " has values on a remote tier: name it when the pool is opened",
                    null);
        }
        try {
            return WriterLock.atTier(() -> Uninterrupted.run(() -> use.get(tier.segments())));
        } catch (StoreFailure e) {
            throw e;
        } catch (IOException | RuntimeException e) {
            throw new StoreFailure.Unavailable(
                    tier.segments().name() + " cannot be reached: " + e, e);
        }
    }
}
