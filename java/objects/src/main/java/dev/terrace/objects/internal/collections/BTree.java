package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Store;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A B-tree: the entries of a sorted map in the order of their keys.
///
/// A node holds the number of its entries, whether it is an inner node, a bit for each value that
/// is null, the words of the keys, and the words of the values. An inner node also holds its
/// children, one more than its keys.
///
/// Invariants: each node but the root has at least 14 entries; all leaves are equally deep.
///
/// An entry's *position* is its node and its number in there, as one word. It holds until the next
/// change of the tree.
///
/// @param <K> the keys' class
/// @param <V> the values' class
public final class BTree<K, V> {
    /// No entry.
    public static final long NONE = -1;

    private static final int ENTRIES_MIN = 14;
    static final int ENTRIES_MAX = 2 * ENTRIES_MIN + 1;
    static final int META_AT = 8;
    private static final int NULLS_AT = 16;
    private static final int KEYS_AT = 24;
    private static final int VALUES_AT = KEYS_AT + ENTRIES_MAX * Long.BYTES;
    private static final int CHILDREN_AT = VALUES_AT + ENTRIES_MAX * Long.BYTES;
    private static final int INNER_BYTES = CHILDREN_AT + (ENTRIES_MAX + 1) * Long.BYTES;
    static final long COUNT_MASK = 0xffff;
    static final long IS_INNER = 0x10000;
    private static final int INDEX_BITS = 5;
    private static final int GRANULE_SHIFT = 4;

    /// More levels than any tree has: a walk through a tree that changes meanwhile must end.
    private static final int DEPTH_MAX = 20;

    private final Anchor anchor;
    private final Store store;
    private final Buffers buffers;
    private final ElementCodec<K> keys;
    private final ElementCodec<V> values;

    public BTree(Anchor anchor, ElementCodec<K> keys, ElementCodec<V> values) {
        this.anchor = anchor;
        store = anchor.store;
        buffers = anchor.heap.buffers();
        this.keys = keys;
        this.values = values;
    }

    private long root() {
        return anchor.get(Anchor.ROOT_AT);
    }

    private int count(long node) {
        int count = (int) (store.word(node + META_AT) & COUNT_MASK);
        if (count > ENTRIES_MAX) {
            throw anchor.damaged("has a node of " + count + " entries");
        }
        return count;
    }

    private boolean isInner(long node) {
        return (store.word(node + META_AT) & IS_INNER) != 0;
    }

    static long keyAt(long node, int index) {
        return node + KEYS_AT + (long) index * Long.BYTES;
    }

    static long valueAt(long node, int index) {
        return node + VALUES_AT + (long) index * Long.BYTES;
    }

    static long childAt(long node, int index) {
        return node + CHILDREN_AT + (long) index * Long.BYTES;
    }

    private long child(long node, int index) {
        return store.word(childAt(node, index));
    }

    private static long position(long node, int index) {
        return node >>> GRANULE_SHIFT << INDEX_BITS | index;
    }

    private static long nodeOf(long position) {
        return position >>> INDEX_BITS << GRANULE_SHIFT;
    }

    private static int indexOf(long position) {
        return (int) position & (1 << INDEX_BITS) - 1;
    }

    /// The key at a position.
    public K key(long position) {
        K key = keys.load(anchor.heap, keyAt(nodeOf(position), indexOf(position)));
        if (key == null) {
            throw anchor.damaged("has a key that is null");
        }
        return key;
    }

    /// The value at a position.
    public @Nullable V value(long position) {
        long node = nodeOf(position);
        int index = indexOf(position);
        boolean isNull = (store.word(node + NULLS_AT) >>> index & 1) != 0;
        return isNull ? null : values.load(anchor, valueAt(node, index));
    }

    // Looking for entries

    /// The first entry of a node whose key is not below `key`, or the number of its entries.
    private int lowerBound(long node, Object key) {
        int low = 0;
        int high = count(node);
        while (low < high) {
            int middle = low + high >>> 1;
            if (keys.compare(key, anchor.heap, keyAt(node, middle)) > 0) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        return low;
    }

    private boolean isAt(long node, int index, Object key) {
        return index < count(node) && keys.compare(key, anchor.heap, keyAt(node, index)) == 0;
    }

    static void requireDepth(Anchor anchor, int depth) {
        if (depth > DEPTH_MAX) {
            throw anchor.damaged("is too deep");
        }
    }

    /// The entry of a key, or [#NONE].
    public long find(Object key) {
        long node = root();
        for (int depth = 0; node != 0; requireDepth(anchor, ++depth)) {
            int index = lowerBound(node, key);
            if (isAt(node, index, key)) {
                return position(node, index);
            }
            node = isInner(node) ? child(node, index) : 0;
        }
        return NONE;
    }

    /// The first entry whose key is above `key`, or, if `inclusive`, is `key`.
    public long above(Object key, boolean inclusive) {
        long best = NONE;
        long node = root();
        for (int depth = 0; node != 0; requireDepth(anchor, ++depth)) {
            int index = lowerBound(node, key);
            if (isAt(node, index, key)) {
                if (inclusive) {
                    return position(node, index);
                }
                index++;
            }
            if (index < count(node)) {
                best = position(node, index);
            }
            node = isInner(node) ? child(node, index) : 0;
        }
        return best;
    }

    /// The last entry whose key is below `key`, or, if `inclusive`, is `key`.
    public long below(Object key, boolean inclusive) {
        long best = NONE;
        long node = root();
        for (int depth = 0; node != 0; requireDepth(anchor, ++depth)) {
            int index = lowerBound(node, key);
            if (inclusive && isAt(node, index, key)) {
                return position(node, index);
            }
            if (index > 0) {
                best = position(node, index - 1);
            }
            node = isInner(node) ? child(node, index) : 0;
        }
        return best;
    }

    /// The first entry, or [#NONE].
    public long first() {
        return root() == 0 ? NONE : firstOf(root());
    }

    private long firstOf(long top) {
        long node = top;
        for (int depth = 0; isInner(node); requireDepth(anchor, ++depth)) {
            node = child(node, 0);
        }
        return position(node, 0);
    }

    /// The last entry, or [#NONE].
    public long last() {
        return root() == 0 ? NONE : lastOf(root());
    }

    private long lastOf(long top) {
        long node = top;
        for (int depth = 0; isInner(node); requireDepth(anchor, ++depth)) {
            node = child(node, count(node));
        }
        return position(node, count(node) - 1);
    }

    /// The entry behind the one at a position, whose key is `key`.
    public long next(long position, Object key) {
        long node = nodeOf(position);
        int index = indexOf(position);
        if (isInner(node)) {
            return firstOf(child(node, index + 1));
        }
        return index + 1 < count(node) ? position + 1 : above(key, false);
    }

    /// The entry before the one at a position, whose key is `key`.
    public long previous(long position, Object key) {
        long node = nodeOf(position);
        int index = indexOf(position);
        if (isInner(node)) {
            return lastOf(child(node, index));
        }
        return index > 0 ? position - 1 : below(key, false);
    }

    // Changes: in a transaction

    private long allocate(boolean inner) {
        long node = store.allocate(inner ? INNER_BYTES : CHILDREN_AT, Anchor.NODE);
        store.putWord(node, node + META_AT, inner ? IS_INNER : 0);
        return node;
    }

    private void put(long node, long at, long word) {
        if (store.word(at) != word) {
            store.putWord(node, at, word);
        }
    }

    private void setCount(long node, int count) {
        put(node, node + META_AT, store.word(node + META_AT) & ~COUNT_MASK | count);
    }

    private void setEntry(long node, int index, long key, long value, boolean isNull) {
        put(node, keyAt(node, index), key);
        put(node, valueAt(node, index), value);
        setNull(node, index, isNull);
    }

    private void setNull(long node, int index, boolean isNull) {
        long nulls = store.word(node + NULLS_AT);
        put(node, node + NULLS_AT, isNull ? nulls | 1L << index : nulls & ~(1L << index));
    }

    private void copyEntry(long from, int fromIndex, long to, int toIndex) {
        boolean isNull = (store.word(from + NULLS_AT) >>> fromIndex & 1) != 0;
        setEntry(
                to,
                toIndex,
                store.word(keyAt(from, fromIndex)),
                store.word(valueAt(from, fromIndex)),
                isNull);
    }

    private void copyChild(long from, int fromIndex, long to, int toIndex) {
        put(to, childAt(to, toIndex), child(from, fromIndex));
    }

    /// Makes room for an entry, and for a child behind it.
    private void open(long node, int index) {
        int count = count(node);
        for (int i = count; i > index; i--) {
            copyEntry(node, i - 1, node, i);
        }
        for (int i = count + 1; isInner(node) && i > index + 1; i--) {
            copyChild(node, i - 1, node, i);
        }
        setCount(node, count + 1);
    }

    /// Takes out an entry, and the child behind it.
    private void close(long node, int index) {
        int count = count(node);
        for (int i = index; i < count - 1; i++) {
            copyEntry(node, i + 1, node, i);
        }
        for (int i = index + 1; isInner(node) && i < count; i++) {
            copyChild(node, i + 1, node, i);
        }
        setCount(node, count - 1);
    }

    /// Replaces the value at a position, and frees the buffer of the old value.
    public void setValue(long position, @Nullable V value) {
        long node = nodeOf(position);
        int index = indexOf(position);
        long word = values.store(anchor, value);
        if (values.isBuffered()) {
            buffers.free(store.word(valueAt(node, index)));
        }
        put(node, valueAt(node, index), word);
        setNull(node, index, value == null);
    }

    /// Adds an entry with a new key. Full nodes on the way down are split, so that each node's
    /// parent has room.
    public void add(K key, @Nullable V value) {
        if (root() == 0) {
            anchor.put(Anchor.ROOT_AT, allocate(false));
        } else if (count(root()) == ENTRIES_MAX) {
            long top = allocate(true);
            store.putWord(top, childAt(top, 0), root());
            anchor.put(Anchor.ROOT_AT, top);
            split(top, 0);
        }
        long node = root();
        int index = lowerBound(node, key);
        while (isInner(node)) {
            if (count(child(node, index)) == ENTRIES_MAX) {
                split(node, index);
                index = lowerBound(node, key);
            }
            node = child(node, index);
            index = lowerBound(node, key);
        }
        long keyWord = keys.storeKey(anchor.heap, key);
        long valueWord = values.store(anchor, value);
        open(node, index);
        setEntry(node, index, keyWord, valueWord, value == null);
        anchor.resize(anchor.size() + 1);
    }

    /// Splits a full child in two, with its middle entry between them in the parent.
    private void split(long parent, int index) {
        long left = child(parent, index);
        long right = allocate(isInner(left));
        for (int i = 0; i < ENTRIES_MIN; i++) {
            copyEntry(left, ENTRIES_MIN + 1 + i, right, i);
        }
        for (int i = 0; isInner(left) && i <= ENTRIES_MIN; i++) {
            copyChild(left, ENTRIES_MIN + 1 + i, right, i);
        }
        setCount(right, ENTRIES_MIN);
        open(parent, index);
        copyEntry(left, ENTRIES_MIN, parent, index);
        put(parent, childAt(parent, index + 1), right);
        setCount(left, ENTRIES_MIN);
    }

    /// Removes the entry of a key that the tree contains, with its buffers. Each node on the way
    /// down gets one entry more than it needs, so that it can lose one.
    public void remove(Object key) {
        long position = find(key);
        long gone = store.word(keyAt(nodeOf(position), indexOf(position)));
        long value = store.word(valueAt(nodeOf(position), indexOf(position)));
        unlink(key);
        // Its key was needed for comparisons until now.
        if (keys.isBuffered()) {
            buffers.free(gone);
        }
        if (values.isBuffered()) {
            buffers.free(value);
        }
    }

    private void unlink(Object key) {
        long node = root();
        int index = lowerBound(node, key);
        while (isInner(node)) {
            if (isAt(node, index, key)) {
                if (count(child(node, index)) > ENTRIES_MIN) {
                    takeLast(child(node, index), node, index);
                    break;
                }
                if (count(child(node, index + 1)) > ENTRIES_MIN) {
                    takeFirst(child(node, index + 1), node, index);
                    break;
                }
                node = merge(node, index);
            } else {
                node = enrich(node, index);
            }
            index = lowerBound(node, key);
        }
        if (!isInner(node)) {
            close(node, index);
        }
        anchor.resize(anchor.size() - 1);
        if (count(root()) == 0) {
            long empty = root();
            anchor.put(Anchor.ROOT_AT, isInner(empty) ? child(empty, 0) : 0);
            store.free(empty);
        }
    }

    /// Moves the last entry below `top`, which can lose one, to a place above.
    private void takeLast(long top, long to, int index) {
        long node = top;
        while (isInner(node)) {
            node = enrich(node, count(node));
        }
        copyEntry(node, count(node) - 1, to, index);
        close(node, count(node) - 1);
    }

    /// Moves the first entry below `top`, which can lose one, to a place above.
    private void takeFirst(long top, long to, int index) {
        long node = top;
        while (isInner(node)) {
            node = enrich(node, 0);
        }
        copyEntry(node, 0, to, index);
        close(node, 0);
    }

    /// Ensures that a child has more entries than it needs, and returns it, or the node that it was
    /// merged into.
    private long enrich(long parent, int index) {
        long child = child(parent, index);
        if (count(child) > ENTRIES_MIN) {
            return child;
        }
        if (index > 0 && count(child(parent, index - 1)) > ENTRIES_MIN) {
            takeFromLeft(parent, index, child);
            return child;
        }
        if (index < count(parent) && count(child(parent, index + 1)) > ENTRIES_MIN) {
            takeFromRight(parent, index, child);
            return child;
        }
        return merge(parent, index < count(parent) ? index : index - 1);
    }

    private void takeFromLeft(long parent, int index, long child) {
        long left = child(parent, index - 1);
        int last = count(left) - 1;
        open(child, 0);
        if (isInner(child)) {
            copyChild(child, 0, child, 1);
            copyChild(left, last + 1, child, 0);
        }
        copyEntry(parent, index - 1, child, 0);
        copyEntry(left, last, parent, index - 1);
        setCount(left, last);
    }

    private void takeFromRight(long parent, int index, long child) {
        long right = child(parent, index + 1);
        int count = count(child);
        copyEntry(parent, index, child, count);
        setCount(child, count + 1);
        copyEntry(right, 0, parent, index);
        if (isInner(child)) {
            copyChild(right, 0, child, count + 1);
            copyChild(right, 1, right, 0);
        }
        close(right, 0);
    }

    /// Merges two nodes of minimal size and the entry between them into one node.
    private long merge(long parent, int index) {
        long left = child(parent, index);
        long right = child(parent, index + 1);
        int count = count(left);
        copyEntry(parent, index, left, count);
        for (int i = 0; i < count(right); i++) {
            copyEntry(right, i, left, count + 1 + i);
        }
        for (int i = 0; isInner(left) && i <= count(right); i++) {
            copyChild(right, i, left, count + 1 + i);
        }
        setCount(left, count + 1 + count(right));
        close(parent, index);
        store.free(right);
        return left;
    }

    /// Receives the places of entries.
    interface Visitor {
        /// An entry: the places of the words of its key and of its value; the latter is -1 if the
        /// value is null.
        void entry(long keyAt, long valueAt);
    }

    /// Shows the first entries of a tree whose keys are elements of this type, in their order.
    public static <K> void forEach(
            Anchor anchor, ElementCodec<K> keys, long limit, Visitor visitor) {
        // This code does not read values.
        BTree<K, K> tree = new BTree<>(anchor, keys, keys);
        long position = tree.first();
        for (long left = limit; left > 0 && position != NONE; left--) {
            long node = nodeOf(position);
            int index = indexOf(position);
            boolean isNull = (tree.store.word(node + NULLS_AT) >>> index & 1) != 0;
            visitor.entry(keyAt(node, index), isNull ? -1 : valueAt(node, index));
            position = tree.next(position, tree.key(position));
        }
    }

    /// Throws an exception if the keys of a tree, which are elements of this type, are out of
    /// order, or if nodes have too few entries or leaves differ in depth.
    public static <K> void check(Anchor anchor, ElementCodec<K> keys, int valueCode) {
        // This code reads values as words only.
        BTree<K, K> tree = new BTree<>(anchor, keys, keys);
        if (tree.root() != 0) {
            tree.check(tree.root(), 0, new ArrayList<>(), valueCode);
        }
    }

    /// Checks the subtree of a node, and returns its depth.
    ///
    /// @param last the last key before the subtree, if there is one; afterwards the last key of the
    ///   subtree
    private int check(long node, int depth, List<K> last, int valueCode) {
        if (depth > 0 && count(node) < ENTRIES_MIN) {
            throw anchor.damaged("has a node of only " + count(node) + " entries");
        }
        int height = isInner(node) ? check(child(node, 0), depth + 1, last, valueCode) : 0;
        for (int i = 0; i < count(node); i++) {
            ElementCodec.check(keys.code(), anchor, keyAt(node, i));
            if (!last.isEmpty()
                    && keys.compare(last.removeLast(), anchor.heap, keyAt(node, i)) >= 0) {
                throw anchor.damaged("has keys that are not in their order");
            }
            last.add(key(position(node, i)));
            if ((store.word(node + NULLS_AT) >>> i & 1) == 0) {
                ElementCodec.check(valueCode, anchor, valueAt(node, i));
            }
            if (isInner(node) && check(child(node, i + 1), depth + 1, last, valueCode) != height) {
                throw anchor.damaged("has leaves that are not equally deep");
            }
        }
        return height + 1;
    }
}
