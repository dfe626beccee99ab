package dev.terrace.objects.collections;

import java.util.Comparator;
import java.util.Iterator;
import java.util.Map;
import java.util.NavigableSet;
import org.jspecify.annotations.Nullable;

/// The keys of a range of a sorted map, in its direction.
///
/// @param <K> the keys' class
final class TreeKeys<K> extends MapView.Distinct<K> implements NavigableSet<K> {
    private final TreeRange<K, ?> range;

    TreeKeys(TreeRange<K, ?> range) {
        super(range, range.anchor);
        this.range = range;
    }

    @Override
    public boolean contains(@Nullable Object key) {
        return range.containsKey(key);
    }

    @Override
    public boolean remove(@Nullable Object key) {
        return range.containsKey(key)
                && anchor.change(() -> {
                    boolean isThere = range.containsKey(key);
                    range.remove(key);
                    return isThere;
                });
    }

    @Override
    public Iterator<K> iterator() {
        return range.keyIterator();
    }

    @Override
    public Iterator<K> descendingIterator() {
        return descendingSet().iterator();
    }

    @Override
    public NavigableSet<K> descendingSet() {
        return range.descendingKeySet();
    }

    @Override
    public @Nullable Comparator<? super K> comparator() {
        return range.comparator();
    }

    @Override
    public K first() {
        return range.firstKey();
    }

    @Override
    public K last() {
        return range.lastKey();
    }

    @Override
    public @Nullable K lower(K key) {
        return range.lowerKey(key);
    }

    @Override
    public @Nullable K floor(K key) {
        return range.floorKey(key);
    }

    @Override
    public @Nullable K ceiling(K key) {
        return range.ceilingKey(key);
    }

    @Override
    public @Nullable K higher(K key) {
        return range.higherKey(key);
    }

    @Override
    public @Nullable K pollFirst() {
        Map.Entry<K, ?> polled = range.pollFirstEntry();
        return polled == null ? null : polled.getKey();
    }

    @Override
    public @Nullable K pollLast() {
        Map.Entry<K, ?> polled = range.pollLastEntry();
        return polled == null ? null : polled.getKey();
    }

    @Override
    public NavigableSet<K> subSet(K from, boolean withFrom, K to, boolean withTo) {
        return range.subMap(from, withFrom, to, withTo).navigableKeySet();
    }

    @Override
    public NavigableSet<K> headSet(K to, boolean inclusive) {
        return range.headMap(to, inclusive).navigableKeySet();
    }

    @Override
    public NavigableSet<K> tailSet(K from, boolean inclusive) {
        return range.tailMap(from, inclusive).navigableKeySet();
    }

    @Override
    public NavigableSet<K> subSet(K from, K to) {
        return subSet(from, true, to, false);
    }

    @Override
    public NavigableSet<K> headSet(K to) {
        return headSet(to, false);
    }

    @Override
    public NavigableSet<K> tailSet(K from) {
        return tailSet(from, true);
    }
}
