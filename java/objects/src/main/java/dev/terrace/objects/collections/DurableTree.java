package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.internal.collections.Anchor;
import dev.terrace.objects.internal.collections.Heap;
import dev.terrace.objects.internal.store.Medium;
import java.util.List;

/// A sorted map in a pool, in the natural order of its keys. Values may be null, keys may not.
///
/// Its views are live, like those of [java.util.TreeMap]. An entry that an iterator returns keeps
/// the value that it had at that time.
///
/// @param <K> the keys' class: numbers, booleans or strings
/// @param <V> the values' class
public final class DurableTree<K, V> extends TreeRange<K, V> implements DurableCollection {
    private DurableTree(Anchor anchor, ElementType<K> keys, ElementType<V> values) {
        super(anchor, keys.codec, values.codec, Bounds.none(), false);
    }

    /// Makes an empty map.
    ///
    /// @param tiers the tiers of values of more than a word, the best first; without any, PMEM.
    ///   Keys are kept in PMEM
    public static <K, V> DurableTree<K, V> create(
            Pool pool, ElementType<K> keys, ElementType<V> values, StorageTier... tiers) {
        return Heap.of(pool)
                .change(() ->
                        new DurableTree<>(
                                Anchor.create(
                                        Heap.of(pool),
                                        Anchor.TREE,
                                        keys.codec.requireComparable(),
                                        values.codec,
                                        Medium.named(List.of(tiers))),
                                keys,
                                values));
    }

    /// The map that a root of the pool leads to. If the root leads nowhere, a new map is made.
    ///
    /// @throws dev.terrace.objects.SchemaMismatchException if it leads to something else
    public static <K, V> DurableTree<K, V> root(
            Pool pool,
            String name,
            ElementType<K> keys,
            ElementType<V> values,
            StorageTier... tiers) {
        return Anchor.root(
                Heap.of(pool),
                name,
                reference -> at(pool, reference, keys, values),
                () -> create(pool, keys, values, tiers).reference());
    }

    /// The map that a reference leads to.
    ///
    /// @throws dev.terrace.objects.StaleReferenceException if it has been deleted
    /// @throws dev.terrace.objects.SchemaMismatchException if it leads to something else
    public static <K, V> DurableTree<K, V> at(
            Pool pool, long reference, ElementType<K> keys, ElementType<V> values) {
        return new DurableTree<>(
                Anchor.open(Heap.of(pool), reference, Anchor.TREE, keys.codec, values.codec),
                keys,
                values);
    }

    @Override
    public Pool pool() {
        return (Pool) anchor.heap.owner();
    }

    @Override
    public long reference() {
        return anchor.reference();
    }

    @Override
    public boolean isAlive() {
        return anchor.isAlive();
    }

    @Override
    public void delete() {
        anchor.delete();
    }
}
