package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Store;
import java.lang.foreign.MemorySegment;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// The table of a durable map. It uses linear hashing: it grows by one bucket at a time, so no
/// change is large.
///
/// A bucket is 16 words of [Cells], or of a node that another bucket leads to: flags, the next
/// bucket of its chain, and seven keys with their values. An entry has nine bits of flags: whether
/// it exists, whether its key is null, whether its value is null, and the six highest bits of the
/// key's hash.
///
/// With n buckets, key hash h belongs to bucket h mod 2m if that is less than n, else to h mod m,
/// where m is the highest power of two up to n.
public final class HashTable {
    private static final int COUNT_AT = Anchor.EXTRA_AT + 8;
    private static final int SEED_AT = Anchor.EXTRA_AT + 16;

    private static final int BUCKET_WORDS = 16;
    private static final int BUCKET_BYTES = BUCKET_WORDS * Long.BYTES;
    private static final int NEXT_AT = 8;
    private static final int ENTRIES_AT = 16;
    private static final int ENTRY_BYTES = 16;
    private static final int VALUE_AT = 8;
    private static final int SLOTS = 7;

    /// The number of entries per bucket above which a bucket is added.
    private static final int LOAD = 3;

    /// The number of buckets that are freed in one transaction: buckets whose entries have buffers,
    /// and others.
    private static final int BUFFERED_AT_ONCE = 100;

    private static final int PLAIN_AT_ONCE = 4096;

    private static final int FLAG_BITS = 9;
    private static final long FLAGS_MASK = (1 << FLAG_BITS) - 1;
    private static final long USED = 1;
    private static final long KEY_IS_NULL = 2;
    private static final long VALUE_IS_NULL = 4;
    private static final int TAG_SHIFT = 3;

    /// The lowest, and the highest, bit of each entry's flags.
    private static final long LOW = 0x40201008040201L;

    private static final long HIGH = LOW << FLAG_BITS - 1;

    /// More buckets than any chain has: a walk through a table that changes meanwhile must end.
    private static final int CHAIN_MAX = 1 << 20;

    /// No number of changes.
    private static final long NEVER = -1;

    private final Anchor anchor;
    private final Store store;
    private final Buffers buffers;
    private final Cells cells;
    private final boolean keysBuffered;
    private final boolean valuesBuffered;
    public final long seed;
    private Shape shape = new Shape(NEVER, 0, 0);

    public HashTable(Anchor anchor, boolean keysBuffered, boolean valuesBuffered) {
        this.anchor = anchor;
        store = anchor.store;
        buffers = anchor.heap.buffers();
        cells = new Cells(anchor, false);
        this.keysBuffered = keysBuffered;
        this.valuesBuffered = valuesBuffered;
        seed = anchor.get(SEED_AT);
    }

    /// Gives a new table its seed. In a transaction.
    public static void setSeed(Anchor anchor, long seed) {
        anchor.put(SEED_AT, seed);
    }

    /// The words of the record that a search needs. They were read when the epoch's number of
    /// changes was `changes`, and are valid until that number changes.
    ///
    /// @param root of the cells
    /// @param count of buckets
    private record Shape(long changes, long root, long count) {}

    private Shape shape(long changes) {
        return new Shape(changes, cells.root(), buckets());
    }

    /// The number of buckets, without the further buckets of their chains.
    public long buckets() {
        return anchor.get(COUNT_AT);
    }

    /// The place of bucket `index`.
    private long bucket(long index) {
        return bucket(cells.root(), index);
    }

    private long bucket(long root, long index) {
        long word = index * BUCKET_WORDS;
        return Cells.at(cells.leaf(root, word), word);
    }

    private static long indexOf(long hash, long count) {
        long high = Long.highestOneBit(count);
        long index = hash & 2 * high - 1;
        return index < count ? index : index & high - 1;
    }

    private static long flagsOf(long hash, boolean keyIsNull) {
        return hash >>> 64 - FLAG_BITS + TAG_SHIFT << TAG_SHIFT
                | (keyIsNull ? KEY_IS_NULL : 0)
                | USED;
    }

    /// The place of an entry.
    private static long entry(long bucket, int slot) {
        return bucket + ENTRIES_AT + slot * ENTRY_BYTES;
    }

    /// The place of an entry's value.
    public static long valueAt(long entry) {
        return entry + VALUE_AT;
    }

    /// The place of an entry from its position, which is one word: the entry's bucket, with its
    /// slot in the low three bits.
    public static long entryOf(long place) {
        return entry(place & -8, (int) place & 7);
    }

    private long flags(long place) {
        return store.word(place & -8) >>> ((int) place & 7) * FLAG_BITS & FLAGS_MASK;
    }

    public boolean isKeyNull(long place) {
        return (flags(place) & KEY_IS_NULL) != 0;
    }

    public boolean isValueNull(long place) {
        return (flags(place) & VALUE_IS_NULL) != 0;
    }

    /// The place of a key; -1 if the table does not contain it.
    ///
    /// @param bytes the bytes of a key that may have a buffer, else null
    public long find(long hash, long word, byte @Nullable [] bytes, boolean keyIsNull) {
        return find(shape(NEVER), hash, word, bytes, keyIsNull);
    }

    /// Like [#find(long, long, byte[], boolean)], for the words in place, which are valid while the
    /// epoch's number of changes is `changes`.
    public long findInPlace(
            long changes, long hash, long word, byte @Nullable [] bytes, boolean keyIsNull) {
        Shape known = shape;
        if (known.changes != changes) {
            anchor.check();
            known = shape(changes);
            if (store.epoch().isStill(changes)) {
                shape = known;
            }
        }
        return find(known, hash, word, bytes, keyIsNull);
    }

    private long find(
            Shape shape, long hash, long word, byte @Nullable [] bytes, boolean keyIsNull) {
        if (shape.count == 0) {
            return -1;
        }
        long wanted = flagsOf(hash, keyIsNull);
        boolean inPlace = store.isInPlace();
        long bucket = bucket(shape.root, indexOf(hash, shape.count));
        for (int steps = 0; steps <= CHAIN_MAX; steps++) {
            MemorySegment words = inPlace ? store.pmem().extentOf(bucket) : copyOf(bucket);
            long at = inPlace ? store.pmem().within(bucket) : 0;
            long flags = words.get(Region.LONG, at) & ~(LOW * VALUE_IS_NULL);
            long differences = flags ^ wanted * LOW;
            // The lowest entry that is marked has no difference; those above it may have one.
            for (long equal = differences - LOW & ~differences & HIGH;
                    equal != 0;
                    equal &= equal - 1) {
                int slot = Long.numberOfTrailingZeros(equal) / FLAG_BITS;
                if ((differences >>> slot * FLAG_BITS & FLAGS_MASK) == 0
                        && (bytes == null
                                ? words.get(Region.LONG, entry(at, slot)) == word
                                : Arrays.equals(buffers.get(entry(bucket, slot)), bytes))) {
                    return bucket | slot;
                }
            }
            bucket = words.get(Region.LONG, at + NEXT_AT);
            if (bucket == 0) {
                return -1;
            }
        }
        throw anchor.damaged("has a chain without an end");
    }

    /// The words of a bucket as this thread sees them.
    private MemorySegment copyOf(long bucket) {
        MemorySegment copy = MemorySegment.ofArray(new long[BUCKET_WORDS]);
        for (int i = 0; i < BUCKET_WORDS; i++) {
            copy.setAtIndex(Region.LONG, i, store.word(bucket + (long) i * Long.BYTES));
        }
        return copy;
    }

    /// The node that a bucket belongs to: a leaf of the cells, or its own node.
    private long owner(long index, long bucket) {
        long word = index * BUCKET_WORDS;
        long leaf = cells.leaf(word);
        return Cells.at(leaf, word) == bucket ? leaf : bucket - Anchor.HEADER_BYTES;
    }

    /// Replaces the value of an entry; the caller frees the old value. In a transaction.
    public void setValue(long hash, long place, long word, boolean isNull) {
        long bucket = place & -8;
        long owner = owner(indexOf(hash, buckets()), bucket);
        cells.put(owner, valueAt(entryOf(place)), word);
        long shifted = VALUE_IS_NULL << ((int) place & 7) * FLAG_BITS;
        long flags = store.word(bucket);
        cells.put(owner, bucket, isNull ? flags | shifted : flags & ~shifted);
    }

    /// Frees the buffer of an entry's value. In a transaction.
    public void freeValue(long place) {
        if (valuesBuffered) {
            buffers.free(store.word(valueAt(entryOf(place))));
        }
    }

    /// Adds an entry with a new key. In a transaction.
    public void add(long hash, long key, boolean keyIsNull, long value, boolean valueIsNull) {
        if (buckets() == 0) {
            cells.ensure(BUCKET_WORDS);
            anchor.put(COUNT_AT, 1);
        }
        long flags = flagsOf(hash, keyIsNull) | (valueIsNull ? VALUE_IS_NULL : 0);
        long index = indexOf(hash, buckets());
        place(index, flags, key, value);
        long size = anchor.size() + 1;
        anchor.resize(size);
        if (size > LOAD * buckets()) {
            split();
        }
    }

    /// Puts an entry into the first free place of a chain.
    private void place(long index, long flags, long key, long value) {
        long bucket = bucket(index);
        while (true) {
            long free = ~store.word(bucket) & LOW;
            long owner = owner(index, bucket);
            if (free != 0) {
                int shift = Long.numberOfTrailingZeros(free);
                long entry = entry(bucket, shift / FLAG_BITS);
                cells.put(owner, entry, key);
                cells.put(owner, valueAt(entry), value);
                cells.put(
                        owner,
                        bucket,
                        store.word(bucket) & ~(FLAGS_MASK << shift) | flags << shift);
                return;
            }
            long next = store.word(bucket + NEXT_AT);
            if (next == 0) {
                next =
                        store.allocate(Anchor.HEADER_BYTES + BUCKET_BYTES, Anchor.NODE)
                                + Anchor.HEADER_BYTES;
                store.putWord(owner, bucket + NEXT_AT, next);
            }
            bucket = next;
        }
    }

    /// Adds a bucket, and moves entries to it, all from one other bucket.
    private void split() {
        long count = buckets();
        long from = count - Long.highestOneBit(count);
        cells.ensure((count + 1) * BUCKET_WORDS);
        long[] entries = new long[3 * SLOTS];
        int length = 0;
        for (long place : places(from)) {
            entries = length == entries.length ? Arrays.copyOf(entries, 2 * length) : entries;
            entries[length] = flags(place);
            entries[length + 1] = store.word(entryOf(place));
            entries[length + 2] = store.word(valueAt(entryOf(place)));
            entries[length] |= indexOf(hashOf(place), count + 1) == from ? 0 : -1L << FLAG_BITS;
            length += 3;
        }
        empty(from);
        anchor.put(COUNT_AT, count + 1);
        for (int i = 0; i < length; i += 3) {
            place(
                    entries[i] < 0 ? count : from,
                    entries[i] & FLAGS_MASK,
                    entries[i + 1],
                    entries[i + 2]);
        }
    }

    private long hashOf(long place) {
        long entry = entryOf(place);
        boolean hasBytes = keysBuffered && !isKeyNull(place);
        return Hash.of(seed, store.word(entry), hasBytes ? buffers.get(entry) : null);
    }

    /// Empties a bucket, which is then its whole chain.
    private void empty(long index) {
        long bucket = bucket(index);
        long owner = owner(index, bucket);
        freeChain(store.word(bucket + NEXT_AT));
        cells.put(owner, bucket, 0);
        cells.put(owner, bucket + NEXT_AT, 0);
    }

    /// The places of all entries in the chain of a bucket.
    public long[] places(long index) {
        long[] places = new long[SLOTS];
        int length = 0;
        int steps = 0;
        for (long bucket = bucket(index); bucket != 0; bucket = store.word(bucket + NEXT_AT)) {
            for (long used = store.word(bucket) & LOW; used != 0; used &= used - 1) {
                places = length == places.length ? Arrays.copyOf(places, 2 * length) : places;
                places[length++] = bucket | Long.numberOfTrailingZeros(used) / FLAG_BITS;
            }
            if (++steps > CHAIN_MAX) {
                throw anchor.damaged("has a chain without an end");
            }
        }
        return Arrays.copyOf(places, length);
    }

    /// Removes an entry, with its buffers. In a transaction.
    public void remove(long hash, long place) {
        long index = indexOf(hash, buckets());
        long bucket = place & -8;
        if (keysBuffered) {
            buffers.free(store.word(entryOf(place)));
        }
        freeValue(place);
        long flags = store.word(bucket) & ~(FLAGS_MASK << ((int) place & 7) * FLAG_BITS);
        cells.put(owner(index, bucket), bucket, flags);
        long first = bucket(index);
        if (flags == 0 && bucket != first) {
            long before = first;
            while (store.word(before + NEXT_AT) != bucket) {
                before = store.word(before + NEXT_AT);
            }
            cells.put(owner(index, before), before + NEXT_AT, store.word(bucket + NEXT_AT));
            store.free(bucket - Anchor.HEADER_BYTES);
        }
        anchor.resize(anchor.size() - 1);
    }

    /// Frees the last buckets, with the buffers of their entries. In a transaction.
    public void freeLast(boolean hasBuffers) {
        long count = buckets();
        long kept = Math.max(0, count - (hasBuffers ? BUFFERED_AT_ONCE : PLAIN_AT_ONCE));
        long entries = 0;
        for (long index = kept; index < count; index++) {
            for (long place : places(index)) {
                if (keysBuffered) {
                    buffers.free(store.word(entryOf(place)));
                }
                freeValue(place);
                entries++;
            }
            freeChain(store.word(bucket(index) + NEXT_AT));
        }
        cells.trim(kept * BUCKET_WORDS, count * BUCKET_WORDS);
        anchor.put(COUNT_AT, kept);
        anchor.resize(anchor.size() - entries);
    }

    private void freeChain(long first) {
        long next = first;
        while (next != 0) {
            long after = store.word(next + NEXT_AT);
            store.free(next - Anchor.HEADER_BYTES);
            next = after;
        }
    }

    /// Throws an exception if an entry is in the wrong bucket, if a key occurs twice, or if a key
    /// or a value has the wrong type.
    public void check(int keyCode, int valueCode) {
        for (long index = 0; index < buckets(); index++) {
            long[] places = places(index);
            for (int i = 0; i < places.length; i++) {
                requireInPlace(index, places[i], keyCode, valueCode);
                for (int j = 0; j < i; j++) {
                    requireOther(places[i], places[j]);
                }
            }
        }
    }

    private void requireInPlace(long index, long place, int keyCode, int valueCode) {
        long hash = hashOf(place);
        long wanted = flagsOf(hash, isKeyNull(place)) | (isValueNull(place) ? VALUE_IS_NULL : 0);
        if (indexOf(hash, buckets()) != index || flags(place) != wanted) {
            throw anchor.damaged("has a key in bucket " + index + " whose hash belongs elsewhere");
        }
        ElementCodec.check(keyCode, anchor, entryOf(place));
        ElementCodec.check(valueCode, anchor, valueAt(entryOf(place)));
    }

    private void requireOther(long place, long before) {
        boolean isNull = isKeyNull(place);
        long entry = entryOf(place);
        boolean isSame =
                keysBuffered && !isNull
                        ? Arrays.equals(buffers.get(entryOf(before)), buffers.get(entry))
                        : store.word(entryOf(before)) == store.word(entry);
        if (isSame && isNull == isKeyNull(before)) {
            throw anchor.damaged("has a key twice");
        }
    }

    /// Shows the nodes of the table, and the references of its keys and values, which are elements
    /// with these numbers.
    public void links(int keyCode, int valueCode, Links links) {
        long count = buckets();
        long entries = 0;
        cells.links(count * BUCKET_WORDS, 0, links);
        for (long index = 0; index < count; index++) {
            for (long next = store.word(bucket(index) + NEXT_AT);
                    next != 0;
                    next = store.word(next + NEXT_AT)) {
                anchor.requireNode(next - Anchor.HEADER_BYTES);
                links.owned(next - Anchor.HEADER_BYTES);
            }
            for (long place : places(index)) {
                long owner = owner(index, place & -8);
                ElementCodec.links(keyCode, anchor, owner, entryOf(place), Anchor.KEY_TIERS, links);
                ElementCodec.links(
                        valueCode, anchor, owner, valueAt(entryOf(place)), anchor.tiers(), links);
                entries++;
            }
        }
        anchor.requireSize(entries);
    }
}
