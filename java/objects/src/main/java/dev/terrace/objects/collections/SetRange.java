package dev.terrace.objects.collections;

import dev.terrace.objects.internal.collections.Anchor;
import java.util.AbstractSet;
import java.util.Collection;
import java.util.Comparator;
import java.util.Iterator;
import java.util.NavigableMap;
import java.util.NavigableSet;
import java.util.SortedSet;
import org.jspecify.annotations.Nullable;

/// The elements of a sorted set between two of them, in one of the two directions: the keys of a
/// range of a map whose values are all true.
///
/// @param <E> the elements' class
abstract sealed class SetRange<E> extends AbstractSet<E> implements NavigableSet<E>
        permits DurableSortedSet, SetRange.View {
    private final NavigableMap<E, Boolean> map;
    final Anchor anchor;

    /// A view of a part of a set, or of a set from its end.
    static final class View<E> extends SetRange<E> {
        View(NavigableMap<E, Boolean> map, Anchor anchor) {
            super(map, anchor);
        }
    }

    SetRange(NavigableMap<E, Boolean> map, Anchor anchor) {
        this.map = map;
        this.anchor = anchor;
    }

    @Override
    public final int size() {
        return map.size();
    }

    @Override
    public final boolean isEmpty() {
        return map.isEmpty();
    }

    @Override
    public final boolean contains(@Nullable Object element) {
        return map.containsKey(element);
    }

    @Override
    public final boolean add(E element) {
        return map.put(element, true) == null;
    }

    /// Adds all elements in one transaction.
    @Override
    public final boolean addAll(Collection<? extends E> elements) {
        return anchor.change(() -> super.addAll(elements));
    }

    /// Removes these elements in one transaction.
    @Override
    public final boolean removeAll(Collection<?> elements) {
        return anchor.change(() -> super.removeAll(elements));
    }

    /// Removes all other elements in one transaction.
    @Override
    public final boolean retainAll(Collection<?> elements) {
        return anchor.change(() -> super.retainAll(elements));
    }

    @Override
    public final boolean remove(@Nullable Object element) {
        return map.navigableKeySet().remove(element);
    }

    @Override
    public final void clear() {
        map.clear();
    }

    @Override
    public final Iterator<E> iterator() {
        return map.navigableKeySet().iterator();
    }

    @Override
    public final Iterator<E> descendingIterator() {
        return descendingSet().iterator();
    }

    @Override
    public final @Nullable Comparator<? super E> comparator() {
        return map.comparator();
    }

    @Override
    public final E first() {
        return map.firstKey();
    }

    @Override
    public final E last() {
        return map.lastKey();
    }

    @Override
    public final @Nullable E lower(E element) {
        return map.lowerKey(element);
    }

    @Override
    public final @Nullable E floor(E element) {
        return map.floorKey(element);
    }

    @Override
    public final @Nullable E ceiling(E element) {
        return map.ceilingKey(element);
    }

    @Override
    public final @Nullable E higher(E element) {
        return map.higherKey(element);
    }

    @Override
    public final @Nullable E pollFirst() {
        return map.navigableKeySet().pollFirst();
    }

    @Override
    public final @Nullable E pollLast() {
        return map.navigableKeySet().pollLast();
    }

    @Override
    public final NavigableSet<E> descendingSet() {
        return new View<>(map.descendingMap(), anchor);
    }

    @Override
    public final NavigableSet<E> subSet(E from, boolean withFrom, E to, boolean withTo) {
        return new View<>(map.subMap(from, withFrom, to, withTo), anchor);
    }

    @Override
    public final NavigableSet<E> headSet(E to, boolean withTo) {
        return new View<>(map.headMap(to, withTo), anchor);
    }

    @Override
    public final NavigableSet<E> tailSet(E from, boolean withFrom) {
        return new View<>(map.tailMap(from, withFrom), anchor);
    }

    @Override
    public final SortedSet<E> subSet(E from, E to) {
        return subSet(from, true, to, false);
    }

    @Override
    public final SortedSet<E> headSet(E to) {
        return headSet(to, false);
    }

    @Override
    public final SortedSet<E> tailSet(E from) {
        return tailSet(from, true);
    }

    @Override
    public final String toString() {
        return map.navigableKeySet().toString();
    }
}
