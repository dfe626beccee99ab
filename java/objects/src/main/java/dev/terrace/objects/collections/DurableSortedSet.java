package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;

/// A sorted set in a pool, in the natural order of its elements: the keys of a [DurableTree] whose
/// values are all true. It holds no null. Its views are live, like those of [java.util.TreeSet].
///
/// @param <E> the elements' class: numbers, booleans, characters or strings
public final class DurableSortedSet<E> extends SetRange<E> implements DurableCollection {
    private final DurableTree<E, Boolean> tree;

    private DurableSortedSet(DurableTree<E, Boolean> tree) {
        super(tree, tree.anchor);
        this.tree = tree;
    }

    /// Makes an empty set, in PMEM.
    public static <E> DurableSortedSet<E> create(Pool pool, ElementType<E> type) {
        return new DurableSortedSet<>(DurableTree.create(pool, type, ElementType.BOOLEAN));
    }

    /// The set that a root of the pool leads to. If the root leads nowhere, a new set is made.
    ///
    /// @throws dev.terrace.objects.SchemaMismatchException if it leads to something else
    public static <E> DurableSortedSet<E> root(Pool pool, String name, ElementType<E> type) {
        return new DurableSortedSet<>(DurableTree.root(pool, name, type, ElementType.BOOLEAN));
    }

    /// The set that a reference leads to.
    ///
    /// @throws dev.terrace.objects.StaleReferenceException if it has been deleted
    /// @throws dev.terrace.objects.SchemaMismatchException if it leads to something else
    public static <E> DurableSortedSet<E> at(Pool pool, long reference, ElementType<E> type) {
        return new DurableSortedSet<>(DurableTree.at(pool, reference, type, ElementType.BOOLEAN));
    }

    @Override
    public Pool pool() {
        return tree.pool();
    }

    @Override
    public long reference() {
        return tree.reference();
    }

    @Override
    public boolean isAlive() {
        return tree.isAlive();
    }

    @Override
    public void delete() {
        tree.delete();
    }
}
