package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.internal.collections.Anchor;
import java.util.AbstractSet;
import java.util.Collection;
import java.util.Iterator;
import org.jspecify.annotations.Nullable;

/// A hash set in a pool: the keys of a [DurableMap] whose values are all true. It may hold null.
///
/// @param <E> the elements' class: numbers, booleans, characters or strings
public final class DurableSet<E> extends AbstractSet<E> implements DurableCollection {
    private final DurableMap<E, Boolean> map;
    final Anchor anchor;

    private DurableSet(DurableMap<E, Boolean> map) {
        this.map = map;
        anchor = map.anchor;
    }

    /// Makes an empty set, in PMEM.
    public static <E> DurableSet<E> create(Pool pool, ElementType<E> type) {
        return new DurableSet<>(DurableMap.create(pool, type, ElementType.BOOLEAN));
    }

    /// The set that a root of the pool leads to. If the root leads nowhere, a new set is made.
    ///
    /// @throws dev.terrace.objects.SchemaMismatchException if it leads to something else
    public static <E> DurableSet<E> root(Pool pool, String name, ElementType<E> type) {
        return new DurableSet<>(DurableMap.root(pool, name, type, ElementType.BOOLEAN));
    }

    /// The set that a reference leads to.
    ///
    /// @throws dev.terrace.objects.StaleReferenceException if it has been deleted
    /// @throws dev.terrace.objects.SchemaMismatchException if it leads to something else
    public static <E> DurableSet<E> at(Pool pool, long reference, ElementType<E> type) {
        return new DurableSet<>(DurableMap.at(pool, reference, type, ElementType.BOOLEAN));
    }

    @Override
    public Pool pool() {
        return map.pool();
    }

    @Override
    public long reference() {
        return map.reference();
    }

    @Override
    public boolean isAlive() {
        return map.isAlive();
    }

    @Override
    public void delete() {
        map.delete();
    }

    @Override
    public int size() {
        return map.size();
    }

    @Override
    public boolean isEmpty() {
        return map.isEmpty();
    }

    @Override
    public boolean contains(@Nullable Object element) {
        return map.containsKey(element);
    }

    @Override
    public boolean add(@Nullable E element) {
        return map.put(element, true) == null;
    }

    /// Adds all elements in one transaction.
    @Override
    public boolean addAll(Collection<? extends E> elements) {
        return anchor.change(() -> super.addAll(elements));
    }

    /// Removes these elements in one transaction.
    @Override
    public boolean removeAll(Collection<?> elements) {
        return anchor.change(() -> super.removeAll(elements));
    }

    /// Removes all other elements in one transaction.
    @Override
    public boolean retainAll(Collection<?> elements) {
        return anchor.change(() -> super.retainAll(elements));
    }

    @Override
    public boolean remove(@Nullable Object element) {
        return map.keySet().remove(element);
    }

    @Override
    public void clear() {
        map.clear();
    }

    @Override
    public Iterator<E> iterator() {
        return map.keySet().iterator();
    }

    @Override
    public String toString() {
        return map.keySet().toString();
    }
}
