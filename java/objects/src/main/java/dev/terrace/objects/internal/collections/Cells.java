package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Store;

/// Words with numbers from 0 on, in leaves below inner nodes. Lists, arrays and hash tables consist
/// of cells.
///
/// The record's word at [Anchor#ROOT_AT] leads to the root, and holds the number of levels of inner
/// nodes in its low four bits. As long as there are none, the next word is the number of words of
/// the only leaf. That leaf is replaced by one twice as large until it has 1024 words; all later
/// leaves have as many. Therefore words never move in large collections. If zero does not tell null
/// from a value, the leaf has a bit for each of its words behind them.
public final class Cells {
    private static final int SHIFT = 10;

    /// Words of a leaf, and references of an inner node.
    public static final int WIDTH = 1 << SHIFT;

    private static final int CAPACITY_AT = Anchor.EXTRA_AT;
    private static final int CAPACITY_MIN = 4;
    private static final long LEVELS_MASK = 15;

    /// Enough levels for the largest number of words that a record can count.
    private static final int LEVELS_MAX = 4;

    private final Anchor anchor;
    private final Store store;
    private final boolean hasPresence;

    public Cells(Anchor anchor, boolean hasPresence) {
        this.anchor = anchor;
        store = anchor.store;
        this.hasPresence = hasPresence;
    }

    /// The leaf of word `index`, which must exist.
    public long leaf(long index) {
        return leaf(root(), index);
    }

    /// The record's word that leads to the root.
    public long root() {
        return anchor.get(Anchor.ROOT_AT);
    }

    /// The leaf of word `index` below this root.
    public long leaf(long root, long index) {
        long node = root & ~LEVELS_MASK;
        for (int level = (int) (root & LEVELS_MASK); level > 0; level--) {
            node = store.word(childAt(node, index >>> level * SHIFT));
        }
        return node;
    }

    private static long childAt(long node, long index) {
        return node + Anchor.HEADER_BYTES + (index & WIDTH - 1) * Long.BYTES;
    }

    /// The place of word `index` in this leaf.
    public static long at(long leaf, long index) {
        return childAt(leaf, index);
    }

    private long capacity() {
        return levels() == 0 ? anchor.get(CAPACITY_AT) : WIDTH;
    }

    private int levels() {
        return (int) (anchor.get(Anchor.ROOT_AT) & LEVELS_MASK);
    }

    private long presenceAt(long leaf, long index) {
        return leaf
                + Anchor.HEADER_BYTES
                + capacity() * Long.BYTES
                + (index & WIDTH - 1) / Long.SIZE * Long.BYTES;
    }

    /// Whether word `index` holds a value.
    public boolean isPresent(long leaf, long index) {
        return !hasPresence || (store.word(presenceAt(leaf, index)) >>> index & 1) != 0;
    }

    /// Changes a word. In a transaction.
    public void set(long index, long word, boolean present) {
        long leaf = leaf(index);
        put(leaf, at(leaf, index), word);
        if (hasPresence) {
            long at = presenceAt(leaf, index);
            long bits = store.word(at);
            put(leaf, at, present ? bits | 1L << index : bits & ~(1L << index));
        }
    }

    /// Changes a word of a node, if the new word differs. In a transaction.
    public void put(long node, long at, long word) {
        if (store.word(at) != word) {
            store.putWord(node, at, word);
        }
    }

    /// Copies a word from one place to another. In a transaction.
    public void copy(long from, long to) {
        long leaf = leaf(from);
        set(to, store.word(at(leaf, from)), isPresent(leaf, from));
    }

    private long allocateLeaf(long capacity) {
        long presence = hasPresence ? (capacity + Long.SIZE - 1) / Long.SIZE : 0;
        return store.allocate(
                Anchor.HEADER_BYTES + (capacity + presence) * Long.BYTES, Anchor.NODE);
    }

    private long allocateInner() {
        return store.allocate(Anchor.HEADER_BYTES + (long) WIDTH * Long.BYTES, Anchor.NODE);
    }

    /// Makes room for the words up to number `count`. In a transaction.
    public void ensure(long count) {
        long root = anchor.get(Anchor.ROOT_AT);
        if (levels() == 0 && (root == 0 || count > capacity())) {
            enlargeLeaf(count);
        }
        if (count > WIDTH) {
            while (count - 1 >>> (levels() + 1) * SHIFT != 0) {
                long inner = allocateInner();
                store.putWord(inner, childAt(inner, 0), anchor.get(Anchor.ROOT_AT) & ~LEVELS_MASK);
                anchor.put(Anchor.ROOT_AT, inner | levels() + 1);
            }
        }
        if (levels() > 0) {
            makePath(count - 1);
        }
    }

    private void enlargeLeaf(long count) {
        long old = anchor.get(Anchor.ROOT_AT);
        long oldCapacity = old == 0 ? 0 : capacity();
        long capacity = Math.max(CAPACITY_MIN, oldCapacity);
        while (capacity < Math.min(count, WIDTH)) {
            capacity *= 2;
        }
        if (capacity == oldCapacity) {
            return;
        }
        long leaf = allocateLeaf(capacity);
        for (long i = 0; i < oldCapacity; i++) {
            store.putWord(leaf, at(leaf, i), store.word(at(old, i)));
        }
        for (long i = 0; hasPresence && i < oldCapacity; i += Long.SIZE) {
            store.putWord(
                    leaf,
                    leaf + Anchor.HEADER_BYTES + capacity * Long.BYTES + i / Long.SIZE * Long.BYTES,
                    store.word(presenceAt(old, i)));
        }
        if (old != 0) {
            store.free(old);
        }
        anchor.put(Anchor.ROOT_AT, leaf);
        anchor.put(CAPACITY_AT, capacity);
    }

    private void makePath(long index) {
        long node = anchor.get(Anchor.ROOT_AT) & ~LEVELS_MASK;
        for (int level = levels(); level > 0; level--) {
            long at = childAt(node, index >>> level * SHIFT);
            long child = store.word(at);
            if (child == 0) {
                child = level == 1 ? allocateLeaf(WIDTH) : allocateInner();
                store.putWord(node, at, child);
            }
            node = child;
        }
    }

    /// Frees the nodes that hold only words from number `count` on; words up to `end` exist. In a
    /// transaction.
    public void trim(long count, long end) {
        long root = anchor.get(Anchor.ROOT_AT);
        if (root == 0 || end == 0) {
            return;
        }
        int levels = levels();
        trim(root & ~LEVELS_MASK, levels, 0, count, end);
        if (count == 0) {
            anchor.put(Anchor.ROOT_AT, 0);
            anchor.put(CAPACITY_AT, 0);
        }
    }

    /// Trims the subtree of a node whose first word is number `first`.
    private void trim(long node, int level, long first, long count, long end) {
        long span = 1L << level * SHIFT;
        for (long i = Math.max(0, count - first) / span;
                level > 0 && i < WIDTH && first + i * span < end;
                i++) {
            long from = first + i * span;
            trim(store.word(childAt(node, i)), level - 1, from, count, end);
            if (from >= count && first < count) {
                store.putWord(node, childAt(node, i), 0);
            }
        }
        if (first >= count) {
            store.free(node);
        }
    }

    /// Shows the nodes that hold so many words, and the references of the words if they are
    /// elements with this number, which is not 0.
    public void links(long count, int code, Links links) {
        requireRoom(count);
        long root = anchor.get(Anchor.ROOT_AT);
        if (root != 0) {
            links(root & ~LEVELS_MASK, levels(), 0, count, code, links);
        }
    }

    private void links(long node, int level, long first, long count, int code, Links links) {
        anchor.requireNode(node);
        links.owned(node);
        long span = 1L << level * SHIFT;
        for (int i = 0; i < WIDTH && first + i * span < count; i++) {
            long at = childAt(node, i);
            if (level > 0) {
                links(store.word(at), level - 1, first + i * span, count, code, links);
            } else if (code == 0) {
                return;
            } else {
                ElementCodec.links(code, anchor, node, at, anchor.tiers(), links);
            }
        }
    }

    /// Throws an exception if so many words are not possible.
    private void requireRoom(long count) {
        boolean isNowhere = anchor.get(Anchor.ROOT_AT) == 0;
        if (levels() > LEVELS_MAX || capacity() < 0 || capacity() > WIDTH) {
            throw anchor.damaged("has a root that none can have");
        }
        long room = isNowhere ? 0 : capacity() << levels() * SHIFT;
        if (count > room) {
            throw anchor.damaged("has " + count + " words, and room for " + room);
        }
    }

    /// Throws an exception if one of so many words is neither null nor the word of an element with
    /// this number.
    public void check(long count, int code) {
        for (long i = 0; i < count; i++) {
            long leaf = leaf(i);
            if (isPresent(leaf, i)) {
                ElementCodec.check(code, anchor, at(leaf, i));
            }
        }
    }

    /// Frees the buffers of words. In a transaction.
    public void freeBuffers(long from, long to) {
        for (long i = from; i < to; i++) {
            anchor.heap.buffers().free(store.word(at(leaf(i), i)));
        }
    }
}
