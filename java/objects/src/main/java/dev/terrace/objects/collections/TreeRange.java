package dev.terrace.objects.collections;

import dev.terrace.objects.internal.collections.Anchor;
import dev.terrace.objects.internal.collections.BTree;
import dev.terrace.objects.internal.collections.ElementCodec;
import java.util.AbstractMap;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.ConcurrentModificationException;
import java.util.Iterator;
import java.util.Map;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/// The entries of a sorted map between two keys, in one of the two directions. The views of a
/// [DurableTree] are ranges, and so is the tree itself, without bounds.
///
/// @param <K> the keys' class
/// @param <V> the values' class
abstract sealed class TreeRange<K, V> extends AbstractMap<K, V> implements NavigableMap<K, V>
        permits DurableTree, TreeRange.View {
    final Anchor anchor;
    private final BTree<K, V> tree;
    private final ElementCodec<K> keyType;
    private final ElementCodec<V> valueType;
    private final Bounds<K> bounds;
    private final boolean descends;

    /// The bounds of a range, in the tree's order; null: no bound.
    record Bounds<K>(@Nullable K low, boolean withLow, @Nullable K high, boolean withHigh) {
        static <K> Bounds<K> none() {
            return new Bounds<>(null, true, null, true);
        }

        boolean isAboveLow(Object key) {
            int order = low == null ? 1 : compare(key, low);
            return order > 0 || order == 0 && withLow;
        }

        boolean isBelowHigh(Object key) {
            int order = high == null ? -1 : compare(key, high);
            return order < 0 || order == 0 && withHigh;
        }

        boolean holds(Object key) {
            return isAboveLow(key) && isBelowHigh(key);
        }

        /// Whether a key is a valid bound of a narrower range.
        boolean mayBound(Object key, boolean inclusive) {
            boolean isClosed =
                    (low == null || compare(key, low) >= 0)
                            && (high == null || compare(key, high) <= 0);
            return isClosed && (!inclusive || holds(key));
        }

        @SuppressWarnings("unchecked")
        private static int compare(Object key, Object bound) {
            return ((Comparable<Object>) key).compareTo(bound);
        }
    }

    /// A view of a part of a tree, or of a tree from its end.
    static final class View<K, V> extends TreeRange<K, V> {
        View(TreeRange<K, V> of, Bounds<K> bounds, boolean descends) {
            super(of.anchor, of.keyType, of.valueType, bounds, descends);
        }
    }

    TreeRange(
            Anchor anchor,
            ElementCodec<K> keyType,
            ElementCodec<V> valueType,
            Bounds<K> bounds,
            boolean descends) {
        this.anchor = anchor;
        this.keyType = keyType;
        this.valueType = valueType;
        this.bounds = bounds;
        this.descends = descends;
        tree = new BTree<>(anchor, keyType, valueType);
    }

    private boolean isWhole() {
        return bounds.low == null && bounds.high == null;
    }

    // Positions in the order of this range

    private long lowest() {
        long position = bounds.low == null ? tree.first() : tree.above(bounds.low, bounds.withLow);
        return position == BTree.NONE || !bounds.isBelowHigh(tree.key(position))
                ? BTree.NONE
                : position;
    }

    private long highest() {
        long position =
                bounds.high == null ? tree.last() : tree.below(bounds.high, bounds.withHigh);
        return position == BTree.NONE || !bounds.isAboveLow(tree.key(position))
                ? BTree.NONE
                : position;
    }

    private long begin() {
        return descends ? highest() : lowest();
    }

    private long end() {
        return descends ? lowest() : highest();
    }

    /// The nearest entry behind a key, if `up`, or before it, in the tree's order.
    private long near(Object key, boolean up, boolean inclusive) {
        if (up) {
            if (!bounds.isAboveLow(key)) {
                return lowest();
            }
            long position = tree.above(key, inclusive);
            return position == BTree.NONE || !bounds.isBelowHigh(tree.key(position))
                    ? BTree.NONE
                    : position;
        }
        if (!bounds.isBelowHigh(key)) {
            return highest();
        }
        long position = tree.below(key, inclusive);
        return position == BTree.NONE || !bounds.isAboveLow(tree.key(position))
                ? BTree.NONE
                : position;
    }

    private long step(long position, K key) {
        long next = descends ? tree.previous(position, key) : tree.next(position, key);
        return next == BTree.NONE || !bounds.holds(tree.key(next)) ? BTree.NONE : next;
    }

    private Map.@Nullable Entry<K, V> entry(long position) {
        return position == BTree.NONE
                ? null
                : new SimpleImmutableEntry<>(tree.key(position), tree.value(position));
    }

    private @Nullable K keyOrNull(long position) {
        return position == BTree.NONE ? null : tree.key(position);
    }

    /// A value of the entry nearest to a key.
    private <T extends @Nullable Object> T nearest(
            K key, boolean later, boolean inclusive, LongFunction<T> what) {
        keyType.require(key);
        return anchor.read(() -> what.apply(near(key, later != descends, inclusive)));
    }

    // Map

    @Override
    public int size() {
        if (isWhole()) {
            return Anchor.toInt(anchor.read(anchor::size));
        }
        return anchor.read(() -> {
            long count = 0;
            for (long at = begin(); at != BTree.NONE; at = step(at, tree.key(at))) {
                count++;
            }
            return Anchor.toInt(count);
        });
    }

    @Override
    public boolean isEmpty() {
        return anchor.read(() -> lowest() == BTree.NONE);
    }

    private long find(@Nullable Object key) {
        Object required = keyType.require(key);
        return bounds.holds(required) ? tree.find(required) : BTree.NONE;
    }

    @Override
    public boolean containsKey(@Nullable Object key) {
        return anchor.read(() -> find(key) != BTree.NONE);
    }

    @Override
    public boolean containsValue(@Nullable Object value) {
        return anchor.read(() -> super.containsValue(value));
    }

    @Override
    public @Nullable V get(@Nullable Object key) {
        return anchor.read(() -> {
            long position = find(key);
            return position == BTree.NONE ? null : tree.value(position);
        });
    }

    private void requireEntry(@Nullable Object key, @Nullable Object value) {
        Object required = keyType.require(key);
        if (value != null) {
            valueType.requireFor(anchor.heap, value);
        }
        if (!bounds.holds(required)) {
            throw new IllegalArgumentException("the key " + key + " is out of range");
        }
    }

    @Override
    public @Nullable V put(K key, @Nullable V value) {
        requireEntry(key, value);
        return anchor.change(() -> {
            long position = tree.find(key);
            if (position == BTree.NONE) {
                tree.add(key, value);
                return null;
            }
            V old = tree.value(position);
            tree.setValue(position, value);
            return old;
        });
    }

    @Override
    public @Nullable V remove(@Nullable Object key) {
        Object required = keyType.require(key);
        return anchor.change(() -> {
            long position = find(required);
            V old = position == BTree.NONE ? null : tree.value(position);
            if (position != BTree.NONE) {
                tree.remove(required);
            }
            return old;
        });
    }

    @Override
    public void clear() {
        anchor.change(() -> {
            if (!isWhole()) {
                for (long at = begin(); at != BTree.NONE; at = begin()) {
                    tree.remove(tree.key(at));
                }
            } else if (anchor.size() > 0) {
                anchor.clear();
            }
            return null;
        });
    }

    @Override
    public void putAll(Map<? extends K, ? extends V> entries) {
        entries.forEach(this::requireEntry);
        anchor.change(() -> {
            super.putAll(entries);
            return null;
        });
    }

    @Override
    public @Nullable V putIfAbsent(K key, @Nullable V value) {
        requireEntry(key, value);
        return anchor.change(() -> NavigableMap.super.putIfAbsent(key, value));
    }

    @Override
    public boolean remove(@Nullable Object key, @Nullable Object value) {
        keyType.require(key);
        return anchor.change(() -> NavigableMap.super.remove(key, value));
    }

    @Override
    public @Nullable V replace(K key, @Nullable V value) {
        requireEntryIfInRange(key, value);
        return anchor.change(() -> NavigableMap.super.replace(key, value));
    }

    @Override
    public boolean replace(K key, @Nullable V oldValue, @Nullable V newValue) {
        requireEntryIfInRange(key, newValue);
        return anchor.change(() -> NavigableMap.super.replace(key, oldValue, newValue));
    }

    private void requireEntryIfInRange(K key, @Nullable V value) {
        if (bounds.holds(keyType.require(key))) {
            requireEntry(key, value);
        }
    }

    @Override
    public void replaceAll(BiFunction<? super K, ? super V, ? extends V> function) {
        anchor.change(() -> {
            NavigableMap.super.replaceAll(function);
            return null;
        });
    }

    @Override
    public @Nullable V computeIfAbsent(K key, Function<? super K, ? extends V> function) {
        return anchor.change(() -> NavigableMap.super.computeIfAbsent(key, function));
    }

    @Override
    public @Nullable V computeIfPresent(
            K key, BiFunction<? super K, ? super V, ? extends V> function) {
        return anchor.change(() -> NavigableMap.super.computeIfPresent(key, function));
    }

    @Override
    public @Nullable V compute(
            K key, BiFunction<? super K, ? super @Nullable V, ? extends V> function) {
        return anchor.change(() -> NavigableMap.super.compute(key, function));
    }

    @Override
    public @Nullable V merge(
            K key, V value, BiFunction<? super V, ? super V, ? extends V> function) {
        requireEntry(key, value);
        return anchor.change(() -> NavigableMap.super.merge(key, value, function));
    }

    @Override
    public boolean equals(@Nullable Object other) {
        return anchor.read(() -> super.equals(other));
    }

    @Override
    public int hashCode() {
        return anchor.read(super::hashCode);
    }

    @Override
    public String toString() {
        return anchor.text("{}", entrySet());
    }

    // SortedMap and NavigableMap

    @Override
    public @Nullable Comparator<? super K> comparator() {
        return descends ? Collections.reverseOrder() : null;
    }

    @Override
    public K firstKey() {
        return requireSome(anchor.read(() -> keyOrNull(begin())));
    }

    @Override
    public K lastKey() {
        return requireSome(anchor.read(() -> keyOrNull(end())));
    }

    private static <T> T requireSome(@Nullable T found) {
        if (found == null) {
            throw new NoSuchElementException("the map is empty");
        }
        return found;
    }

    @Override
    public Map.@Nullable Entry<K, V> firstEntry() {
        return anchor.read(() -> entry(begin()));
    }

    @Override
    public Map.@Nullable Entry<K, V> lastEntry() {
        return anchor.read(() -> entry(end()));
    }

    @Override
    public Map.@Nullable Entry<K, V> pollFirstEntry() {
        return poll(!descends);
    }

    @Override
    public Map.@Nullable Entry<K, V> pollLastEntry() {
        return poll(descends);
    }

    private Map.@Nullable Entry<K, V> poll(boolean lowest) {
        return anchor.change(() -> {
            Map.Entry<K, V> found = entry(lowest ? lowest() : highest());
            if (found != null) {
                tree.remove(found.getKey());
            }
            return found;
        });
    }

    @Override
    public Map.@Nullable Entry<K, V> lowerEntry(K key) {
        return nearest(key, false, false, this::entry);
    }

    @Override
    public @Nullable K lowerKey(K key) {
        return nearest(key, false, false, this::keyOrNull);
    }

    @Override
    public Map.@Nullable Entry<K, V> floorEntry(K key) {
        return nearest(key, false, true, this::entry);
    }

    @Override
    public @Nullable K floorKey(K key) {
        return nearest(key, false, true, this::keyOrNull);
    }

    @Override
    public Map.@Nullable Entry<K, V> ceilingEntry(K key) {
        return nearest(key, true, true, this::entry);
    }

    @Override
    public @Nullable K ceilingKey(K key) {
        return nearest(key, true, true, this::keyOrNull);
    }

    @Override
    public Map.@Nullable Entry<K, V> higherEntry(K key) {
        return nearest(key, true, false, this::entry);
    }

    @Override
    public @Nullable K higherKey(K key) {
        return nearest(key, true, false, this::keyOrNull);
    }

    @Override
    public NavigableMap<K, V> descendingMap() {
        return new View<>(this, bounds, !descends);
    }

    @Override
    public NavigableMap<K, V> subMap(K from, boolean withFrom, K to, boolean withTo) {
        keyType.require(from);
        keyType.require(to);
        int order = Bounds.compare(from, to);
        if (descends ? order < 0 : order > 0) {
            throw new IllegalArgumentException("from " + from + " to " + to + " is no range");
        }
        return narrow(from, withFrom, to, withTo);
    }

    @Override
    public NavigableMap<K, V> headMap(K to, boolean inclusive) {
        keyType.require(to);
        return narrow(null, true, to, inclusive);
    }

    @Override
    public NavigableMap<K, V> tailMap(K from, boolean inclusive) {
        keyType.require(from);
        return narrow(from, inclusive, null, true);
    }

    /// A view between two keys in the order of this range; null: where this range ends.
    private NavigableMap<K, V> narrow(
            @Nullable K from, boolean withFrom, @Nullable K to, boolean withTo) {
        requireBound(from, withFrom);
        requireBound(to, withTo);
        K low = descends ? to : from;
        K high = descends ? from : to;
        Bounds<K> narrower =
                new Bounds<>(
                        low == null ? bounds.low : low,
                        low == null ? bounds.withLow : descends ? withTo : withFrom,
                        high == null ? bounds.high : high,
                        high == null ? bounds.withHigh : descends ? withFrom : withTo);
        return new View<>(this, narrower, descends);
    }

    private void requireBound(@Nullable K key, boolean inclusive) {
        if (key != null && !bounds.mayBound(key, inclusive)) {
            throw new IllegalArgumentException("the key " + key + " is out of range");
        }
    }

    @Override
    public NavigableMap<K, V> subMap(K from, K to) {
        return subMap(from, true, to, false);
    }

    @Override
    public NavigableMap<K, V> headMap(K to) {
        return headMap(to, false);
    }

    @Override
    public NavigableMap<K, V> tailMap(K from) {
        return tailMap(from, true);
    }

    @Override
    public NavigableSet<K> navigableKeySet() {
        return new TreeKeys<>(this);
    }

    @Override
    public NavigableSet<K> keySet() {
        return navigableKeySet();
    }

    @Override
    public NavigableSet<K> descendingKeySet() {
        return descendingMap().navigableKeySet();
    }

    @Override
    public Collection<V> values() {
        return new MapView.Values<>(this, anchor);
    }

    @Override
    public Set<Map.Entry<K, V>> entrySet() {
        return new MapView.Entries<>(this, anchor, RangeIterator<Map.Entry<K, V>>::new);
    }

    Iterator<K> keyIterator() {
        return new RangeIterator<>((key, _) -> key);
    }

    private final class RangeIterator<T> implements Iterator<T> {
        private final BiFunction<K, @Nullable V, T> result;
        private int changes;
        private long next;
        private @Nullable K last;

        RangeIterator(BiFunction<K, @Nullable V, T> result) {
            this.result = result;
            anchor.read(() -> {
                changes = anchor.changes();
                next = begin();
                return null;
            });
        }

        private void checkChanges() {
            if (anchor.changes() != changes) {
                throw new ConcurrentModificationException();
            }
        }

        @Override
        public boolean hasNext() {
            return next != BTree.NONE;
        }

        @Override
        public T next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            long now = next;
            return anchor.read(() -> {
                checkChanges();
                K key = tree.key(now);
                T found = result.apply(key, tree.value(now));
                next = step(now, key);
                last = key;
                return found;
            });
        }

        @Override
        public void remove() {
            K gone = last;
            if (gone == null) {
                throw new IllegalStateException("there is nothing to remove");
            }
            anchor.read(() -> {
                checkChanges();
                return null;
            });
            anchor.change(() -> {
                checkChanges();
                tree.remove(gone);
                changes = anchor.changes();
                next = near(gone, !descends, false);
                return null;
            });
            last = null;
        }
    }
}
