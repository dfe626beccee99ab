package dev.terrace.objects.internal.store;

import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.IntFunction;
import java.util.function.LongFunction;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;

/// Values of any length, on any tier, and the words (*slots*) that lead to them.
///
/// A slot is 0 for null; or up to seven bytes, with their number; or a place: kind (4 bits), disk
/// (4 bits), nonce (16 bits), offset by 16 (40 bits). In persistent memory a buffer is a header,
/// its length and its bytes; on a disk it is its length, a CRC-32C and its bytes. New buffers on
/// disks are *checked*, and so are new buffers in persistent memory if the pool has that option: a
/// [CheckedFront] takes the place of the length. The slot of a value on the remote tier leads to
/// the value's record in persistent memory ([Remote]).
///
/// Invariant: a buffer is written once, before the slot that leads to it. A thread that reads a
/// slot, the buffer, and the same slot again, before a commit has the same [Nonce], has read that
/// buffer. A value that fits into a slot has no buffer.
public final class Buffers {
    /// The slot of null.
    public static final long NULL = 0;

    private static final int KIND_INLINE = 1;
    private static final int KIND_PMEM = 2;
    private static final int KIND_DISK = 3;
    private static final int KIND_REMOTE = 4;
    // No two of these kinds differ in only one bit.
    private static final int KIND_CHECKED_DISK = 13;
    private static final int KIND_CHECKED_PMEM = 14;

    /// Bytes of the longest value that lies in its slot.
    static final int INLINE_BYTES_MAX = 7;

    /// Bytes before those of a value in persistent memory.
    static final int PMEM_FRONT_BYTES = 16;

    /// Bytes before those of a checked value in persistent memory.
    static final int CHECKED_PMEM_FRONT_BYTES = Headers.BYTES + CheckedFront.BYTES;

    /// Bytes before those of a value on a disk that is not checked.
    private static final int DISK_FRONT_BYTES = 8;

    static final ValueLayout.OfLong WORD =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    private final Store store;
    private final List<Integer> ssds;
    private final List<Integer> hdds;

    /// Whether values that are written to persistent memory are checked.
    private final boolean checksPmem;

    private Runnable onSpill = () -> {};
    private Runnable onFree = () -> {};

    /// The buffers of a pool.
    public Buffers(Store store) {
        this.store = store;
        ssds = disks(store, Medium.SSD);
        hdds = disks(store, Medium.HDD);
        checksPmem = Feature.CHECKED_PMEM.isIn(store.pmem());
    }

    private static List<Integer> disks(Store store, Medium tier) {
        return IntStream.range(0, store.diskCount())
                .filter(disk -> store.diskTier(disk) == tier)
                .boxed()
                .toList();
    }

    /// Stores bytes on the first of these tiers that has room, and returns the slot. In a
    /// transaction.
    ///
    /// @throws StoreFailure.Full if none has
    /// @throws IllegalArgumentException if the pool has none of these tiers
    public long put(List<Medium> tiers, byte[] bytes) {
        if (bytes.length <= INLINE_BYTES_MAX) {
            return inlineSlot(bytes);
        }
        List<StoreFailure.Full> full = new ArrayList<>();
        for (Medium tier : tiers) {
            if (!isThere(tier)) {
                continue;
            }
            try {
                long slot =
                        switch (tier) {
                            case PMEM -> putInPmem(bytes);
                            case REMOTE -> place(KIND_REMOTE, 0, store.remote().put(bytes));
                            default -> putOnDisk(tier, bytes);
                        };
                if (!full.isEmpty()) {
                    onSpill.run();
                }
                return slot;
            } catch (StoreFailure.Full e) {
                full.add(e);
            }
        }
        if (full.isEmpty()) {
            throw new IllegalArgumentException(
                    store.pmem().name()
                            + " has no tier "
                            + String.join(", ", tiers.stream().map(Medium::name).toList())
                            + ": name it when the pool is opened");
        }
        StoreFailure.Full last = full.getLast();
        full.subList(0, full.size() - 1).forEach(last::addSuppressed);
        throw last;
    }

    /// The slot that holds these bytes itself.
    static long inlineSlot(byte[] bytes) {
        long slot = KIND_INLINE | (long) bytes.length << 4;
        for (int i = 0; i < bytes.length; i++) {
            slot |= (bytes[i] & 0xffL) << 8 * (i + 1);
        }
        return slot;
    }

    /// Stores bytes on the device of a place, without growing it, and returns the slot. In a
    /// transaction.
    ///
    /// @throws StoreFailure.Full if it has no room
    public long putBeside(Place place, byte[] bytes) {
        return place.disk() < 0
                ? putInPmem(store.allocateWithin(pmemBytes(bytes)), bytes)
                : putOnDisk(
                        place.disk(),
                        store.allocateWithinDisk(place.disk(), diskBytes(bytes)),
                        bytes);
    }

    private long pmemBytes(byte[] bytes) {
        return bytes.length + (long) (checksPmem ? CHECKED_PMEM_FRONT_BYTES : PMEM_FRONT_BYTES);
    }

    private static long diskBytes(byte[] bytes) {
        return CheckedFront.BYTES + (long) bytes.length;
    }

    /// Sets the listener that is told when a value finds no room on its best tier, and when a
    /// buffer in persistent memory is freed.
    public void onSpillAndFree(Runnable spilled, Runnable freed) {
        onSpill = spilled;
        onFree = freed;
    }

    private long putInPmem(byte[] bytes) {
        return putInPmem(store.allocate(pmemBytes(bytes), Headers.BUFFER), bytes);
    }

    private long putInPmem(long offset, byte[] bytes) {
        long at = offset + Headers.BYTES;
        if (checksPmem) {
            long slot = place(KIND_CHECKED_PMEM, 0, offset);
            byte[] whole = checked(slot, bytes);
            store.pmem().put(at, MemorySegment.ofArray(whole), 0, whole.length);
            return slot;
        }
        store.pmem().putLong(at, bytes.length);
        store.pmem().put(offset + PMEM_FRONT_BYTES, MemorySegment.ofArray(bytes), 0, bytes.length);
        return place(KIND_PMEM, 0, offset);
    }

    /// A value in the form in which it is stored behind this slot.
    private byte[] checked(long slot, byte[] bytes) {
        byte[] whole = new byte[CheckedFront.BYTES + bytes.length];
        MemorySegment front = MemorySegment.ofArray(whole);
        long word = CheckedFront.word(bytes.length, Segment.crc(bytes));
        front.set(WORD, 0, word);
        front.set(WORD, Long.BYTES, CheckedFront.seal(store.secret(), slot, word));
        System.arraycopy(bytes, 0, whole, CheckedFront.BYTES, bytes.length);
        return whole;
    }

    private long putOnDisk(Medium tier, byte[] bytes) {
        List<Integer> disks = disksOf(tier);
        int disk = disks.getFirst();
        long offset = -1;
        for (int i = 0; i < disks.size() && offset < 0; i++) {
            disk = disks.get(i);
            offset = store.allocateOnDisk(disk, diskBytes(bytes));
        }
        return putOnDisk(disk, offset, bytes);
    }

    private long putOnDisk(int disk, long offset, byte[] bytes) {
        if (offset < 0) {
            throw new StoreFailure.Full(
                    store.disk(disk).name() + " has no room for " + bytes.length + " bytes");
        }
        long slot = place(KIND_CHECKED_DISK, disk, offset);
        byte[] whole = checked(slot, bytes);
        store.writeToDisk(disk, offset, MemorySegment.ofArray(whole), whole.length);
        return slot;
    }

    /// The index of a place's tier in this list; -1 if it is not in the list.
    public int indexOf(Place place, List<Medium> tiers) {
        for (int i = 0; i < tiers.size(); i++) {
            if (isOn(place, tiers.get(i))) {
                return i;
            }
        }
        return -1;
    }

    /// Whether the pool has this tier.
    public boolean isThere(Medium tier) {
        return switch (tier) {
            case PMEM -> true;
            case REMOTE -> store.remote().isThere();
            default -> !disksOf(tier).isEmpty();
        };
    }

    private boolean isOn(Place place, Medium tier) {
        return switch (tier) {
            case PMEM -> place.disk() < 0;
            case REMOTE -> place.disk() == Place.REMOTE;
            default -> disksOf(tier).contains(place.disk());
        };
    }

    /// The disks of this tier, in the order in which they are filled.
    private List<Integer> disksOf(Medium tier) {
        boolean isSsd = tier == Medium.SSD || tier == Medium.DISK && !ssds.isEmpty();
        return isSsd ? ssds : hdds;
    }

    private long place(int kind, int disk, long offset) {
        long granule = offset / SizeClasses.GRANULE_BYTES;
        return kind | (long) disk << 4 | Nonce.at(store.sequence()) | granule << 24;
    }

    private static int kind(long slot) {
        int kind = (int) slot & 0xf;
        return kind == 0 && slot != NULL ? -1 : kind;
    }

    private static int disk(long slot) {
        return (int) (slot >>> 4) & 0xf;
    }

    private static long offset(long slot) {
        return (slot >>> 24) * SizeClasses.GRANULE_BYTES;
    }

    /// Frees the buffer of a slot, once the transaction commits.
    public void free(long slot) {
        switch (kind(slot)) {
            case KIND_PMEM, KIND_CHECKED_PMEM -> {
                store.free(offset(slot));
                onFree.run();
            }
            case KIND_DISK, KIND_CHECKED_DISK -> store.freeOnDisk(disk(slot), offset(slot));
            case KIND_REMOTE -> store.remote().free(offset(slot));
            default -> {}
        }
    }

    /// The target of a slot. It lies on disk `disk`, or in persistent memory if `disk` is -1. If
    /// `disk` is [#REMOTE], it is a value on the remote tier, whose record begins at `offset` of
    /// persistent memory.
    public record Place(int disk, long offset) {
        /// The number after those of disks.
        public static final int REMOTE = Superblock.DISKS_MAX;
    }

    /// The target of a slot; null if the slot holds its value itself.
    public static @Nullable Place place(long slot) {
        return switch (kind(slot)) {
            case KIND_PMEM, KIND_CHECKED_PMEM -> new Place(-1, offset(slot));
            case KIND_DISK, KIND_CHECKED_DISK -> new Place(disk(slot), offset(slot));
            case KIND_REMOTE -> new Place(Place.REMOTE, offset(slot));
            default -> null;
        };
    }

    /// Reads the buffer of a slot, and describes its damage; null if it is sound.
    public @Nullable String verify(long slot) {
        try {
            load(slot);
            return null;
        } catch (StoreFailure.Damaged | IndexOutOfBoundsException e) {
            return e.getMessage();
        }
    }

    /// The bytes of the slot at `at`, whole and of one commit; null if the slot is null.
    ///
    /// @throws StoreFailure.Damaged if they are damaged
    public byte @Nullable [] get(long at) {
        return settled(at, this::load);
    }

    /// Copies the bytes of the slot at `at`, as many as fit, and returns their number; -1 if the
    /// slot is null. Bytes in persistent memory are copied once, without garbage.
    ///
    /// @param target given the number of all bytes, the memory to copy to; perhaps several times
    /// @throws StoreFailure.Damaged if they are damaged
    public int copy(long at, IntFunction<MemorySegment> target) {
        return settled(at, slot -> copyOf(slot, target));
    }

    private int copyOf(long slot, IntFunction<MemorySegment> target) {
        if (kind(slot) == KIND_PMEM) {
            int length = pmemLength(offset(slot));
            MemorySegment into = target.apply(length);
            int count = (int) Math.min(into.byteSize(), length);
            store.pmem().get(offset(slot) + PMEM_FRONT_BYTES, into, 0, count);
            return count;
        }
        byte[] bytes = load(slot);
        if (bytes == null) {
            return -1;
        }
        MemorySegment into = target.apply(bytes.length);
        int count = (int) Math.min(into.byteSize(), bytes.length);
        MemorySegment.copy(MemorySegment.ofArray(bytes), 0, into, 0, count);
        return count;
    }

    /// The number of bytes of the slot at `at`, without reading them; -1 if the slot is null.
    ///
    /// @throws StoreFailure.Damaged if there is no buffer
    public int length(long at) {
        return settled(at, this::lengthOf);
    }

    /// Whether the value of the slot at `at` is equal to this one; null is not.
    ///
    /// @throws StoreFailure.Damaged if the value has to be read, and is damaged
    public boolean isEqual(long at, Comparand value) {
        return settled(at, slot -> isEqualIn(slot, value));
    }

    private boolean isEqualIn(long slot, Comparand value) {
        boolean mayBeEqual =
                switch (kind(slot)) {
                    // The front's seal tells damage, and its checksum most other values, so that
                    // those need not be read from a disk.
                    case KIND_CHECKED_PMEM -> value.mayHaveFront(pmemFront(slot));
                    case KIND_CHECKED_DISK -> value.mayHaveFront(diskFront(slot));
                    default -> lengthOf(slot) == value.length();
                };
        byte[] bytes = mayBeEqual ? load(slot) : null;
        return bytes != null && value.equalsBytes(bytes);
    }

    /// The same of a slot whose value lies in the slot or, without a checksum, in persistent
    /// memory, for a caller that looks afterwards whether anything has changed meanwhile. Any
    /// exception may mean that something has.
    ///
    /// @return 1: equal; 0: not equal; -1: the value lies elsewhere, is damaged, or has changed
    public int isEqualInPlace(long slot, Comparand value) {
        if (kind(slot) == KIND_PMEM) {
            long offset = offset(slot);
            Region pmem = store.pmem();
            return isEqualInPmem(pmem.extentOf(offset), pmem.within(offset), offset, value);
        }
        if (kind(slot) == KIND_INLINE) {
            inlineLength(slot); // throws an exception if the slot is damaged
            return value.isSlot(slot) ? 1 : 0;
        }
        return slot == NULL ? 0 : -1;
    }

    private int isEqualInPmem(MemorySegment memory, long begin, long offset, Comparand value) {
        long header = memory.get(Region.LONG, begin);
        long length = memory.get(Region.LONG, begin + Headers.BYTES);
        if (Headers.type(header) != Headers.BUFFER || !store.belongs(offset, header)) {
            return -1;
        }
        if (length <= INLINE_BYTES_MAX || length > memory.byteSize() - begin - PMEM_FRONT_BYTES) {
            return -1;
        }
        if (length != value.length()) {
            return 0;
        }
        return value.equalsBytesAt(memory, begin + PMEM_FRONT_BYTES) ? 1 : 0;
    }

    /// The bits of an element, the other bits zero, of the array behind the slot at `at`, whose
    /// elements have `width` bytes. Only the element is read, unless the array is on a disk or
    /// checked: then a checksum covers the whole array, and without verifying it the bytes might be
    /// wrong.
    ///
    /// @param lengthOfNull the number of elements, all zero, if the slot is null
    /// @throws IndexOutOfBoundsException if there is no such element
    /// @throws StoreFailure.Damaged if there is no buffer, or one that has a checksum is damaged
    public long element(long at, int index, int width, int lengthOfNull) {
        return settled(at, slot -> elementOf(slot, index, width, lengthOfNull));
    }

    private long elementOf(long slot, int index, int width, int lengthOfNull) {
        int from = index * width;
        switch (kind(slot)) {
            case 0 -> {
                Objects.checkIndex(index, lengthOfNull);
                return 0;
            }
            case KIND_INLINE -> {
                Objects.checkIndex(index, inlineLength(slot) / width);
                return bits(slot >>> 8, from, width);
            }
            case KIND_PMEM -> {
                Objects.checkIndex(index, pmemLength(offset(slot)) / width);
                long word =
                        store.pmem()
                                .getLong(offset(slot) + PMEM_FRONT_BYTES + (from & -Long.BYTES));
                return bits(word, from & Long.BYTES - 1, width);
            }
            default -> {
                byte[] bytes = Objects.requireNonNull(load(slot));
                Objects.checkIndex(index, bytes.length / width);
                byte[] word = Arrays.copyOfRange(bytes, from, from + Long.BYTES);
                return bits(MemorySegment.ofArray(word).get(WORD, 0), 0, width);
            }
        }
    }

    /// The bits of so many bytes of a word.
    private static long bits(long word, int from, int width) {
        return word >>> 8 * from & -1L >>> 8 * (Long.BYTES - width);
    }

    /// The result of `find` for the slot at `at`, which stayed the same meanwhile.
    <T extends @Nullable Object> T settled(long at, LongFunction<T> find) {
        Reads reads = store.reads();
        long until = 0;
        for (int attempt = 0; reads.mayTryAgain(attempt); attempt++) {
            until = reads.patienceEnds(attempt, until);
            long sequence = store.sequence();
            long slot = store.word(at);
            try {
                T found = find.apply(slot);
                VarHandle.loadLoadFence();
                if (store.word(at) == slot && isSameSince(slot, sequence)) {
                    return found;
                }
            } catch (RuntimeException | InternalError e) {
                // The place may have been reused, or cut off with the end of a disk's file.
                if (store.word(at) == slot) {
                    reads.requireDamage(e);
                    throw e;
                }
            }
        }
        return store.alone(() -> find.apply(store.word(at)));
    }

    /// Whether a slot that still holds what it held when the sequence was this number leads to the
    /// same buffer. Not for slots that a transaction has not committed yet. Called after the slot
    /// was read.
    public boolean isSameSince(long slot, long sequence) {
        VarHandle.loadLoadFence();
        return place(slot) == null || Nonce.isUnique(slot, sequence, store.sequence());
    }

    private int lengthOf(long slot) {
        return switch (kind(slot)) {
            case 0 -> -1;
            case KIND_INLINE -> inlineLength(slot);
            case KIND_PMEM -> pmemLength(offset(slot));
            case KIND_DISK -> diskLength(store.disk(disk(slot)), offset(slot));
            case KIND_CHECKED_PMEM -> CheckedFront.length(pmemFront(slot));
            case KIND_CHECKED_DISK -> CheckedFront.length(diskFront(slot));
            case KIND_REMOTE -> store.read(() -> store.remote().length(offset(slot)));
            default -> throw noSlot(slot);
        };
    }

    /// The bytes of a slot.
    private byte @Nullable [] load(long slot) {
        return switch (kind(slot)) {
            case 0 -> null;
            case KIND_INLINE -> inlined(slot);
            case KIND_PMEM ->
                    load(store.pmem(), offset(slot) + PMEM_FRONT_BYTES, pmemLength(offset(slot)));
            case KIND_CHECKED_PMEM ->
                    loadChecked(
                            store.pmem(), offset(slot) + CHECKED_PMEM_FRONT_BYTES, pmemFront(slot));
            case KIND_DISK, KIND_CHECKED_DISK -> loadFromDisk(slot);
            // The value's record may change while its slot stays the same.
            case KIND_REMOTE -> store.read(() -> store.remote().load(offset(slot)));
            default -> throw noSlot(slot);
        };
    }

    private StoreFailure.Damaged noSlot(long slot) {
        return new StoreFailure.Damaged(
                store.pmem().name() + ": " + Long.toHexString(slot) + " is no slot");
    }

    private int inlineLength(long slot) {
        int length = (int) (slot >>> 4) & 0xf;
        // The bytes behind the value are zero.
        if (length > INLINE_BYTES_MAX
                || length < INLINE_BYTES_MAX && slot >>> 8 * (length + 1) != 0) {
            throw noSlot(slot);
        }
        return length;
    }

    private byte[] inlined(long slot) {
        byte[] bytes = new byte[inlineLength(slot)];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) (slot >>> 8 * (i + 1));
        }
        return bytes;
    }

    private void requireBuffer(long offset) {
        Region pmem = store.pmem();
        if (!pmem.contains(offset) || !store.isBuffer(offset)) {
            throw new StoreFailure.Damaged(
                    pmem.name() + ": there is no buffer at offset " + offset);
        }
    }

    private int pmemLength(long offset) {
        requireBuffer(offset);
        Region pmem = store.pmem();
        return requireLength(pmem, offset, PMEM_FRONT_BYTES, pmem.getLong(offset + Headers.BYTES));
    }

    private static int diskLength(Region disk, long offset) {
        return requireLength(disk, offset, DISK_FRONT_BYTES, (int) disk.getLong(offset));
    }

    private long pmemFront(long slot) {
        requireBuffer(offset(slot));
        return CheckedFront.require(
                store.pmem(), offset(slot) + Headers.BYTES, store.secret(), slot);
    }

    private long diskFront(long slot) {
        return CheckedFront.require(store.disk(disk(slot)), offset(slot), store.secret(), slot);
    }

    private byte[] loadFromDisk(long slot) {
        Region disk = store.disk(disk(slot));
        long offset = offset(slot);
        Events.DiskRead event = new Events.DiskRead();
        event.begin();
        byte[] bytes =
                kind(slot) == KIND_CHECKED_DISK
                        ? loadChecked(disk, offset + CheckedFront.BYTES, diskFront(slot))
                        : loadChecked(
                                disk,
                                offset + DISK_FRONT_BYTES,
                                CheckedFront.word(
                                        diskLength(disk, offset),
                                        (int) (disk.getLong(offset) >>> 32)));
        event.end(disk, bytes.length);
        return bytes;
    }

    /// Loads the bytes at `from`, whose length and checksum are in this word.
    private static byte[] loadChecked(Region region, long from, long word) {
        byte[] bytes =
                load(region, from, requireLength(region, from, 0, CheckedFront.length(word)));
        if (Segment.crc(bytes) != CheckedFront.crc(word)) {
            throw new StoreFailure.Damaged(
                    "%s: %d bytes at offset %d are damaged"
                            .formatted(region.name(), bytes.length, from));
        }
        return bytes;
    }

    /// Rejects impossible lengths: a damaged length would reach beyond the buffer, and shorter
    /// values lie in their slots.
    private static int requireLength(Region region, long offset, int front, long length) {
        if (length <= INLINE_BYTES_MAX
                || length > region.extentBytes() - region.within(offset) - front) {
            throw new StoreFailure.Damaged(
                    region.name() + ": a length at offset " + offset + " is damaged");
        }
        return (int) length;
    }

    private static byte[] load(Region region, long from, int length) {
        byte[] bytes = new byte[length];
        region.get(from, MemorySegment.ofArray(bytes), 0, length);
        return bytes;
    }
}
