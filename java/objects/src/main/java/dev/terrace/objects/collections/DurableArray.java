package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.SchemaMismatchException;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.internal.collections.Anchor;
import dev.terrace.objects.internal.collections.Cells;
import dev.terrace.objects.internal.collections.Heap;
import dev.terrace.objects.internal.store.Medium;
import java.util.List;

/// An array in a pool: a list of fixed length. All elements are null at first.
///
/// @param <E> the elements' class
public final class DurableArray<E> extends DurableSequence<E> {
    private DurableArray(Anchor anchor, ElementType<E> type) {
        super(anchor, type);
    }

    /// Makes an array of nulls.
    ///
    /// @param tiers the tiers of elements of more than a word, the best first; without any, PMEM
    public static <E> DurableArray<E> create(
            Pool pool, ElementType<E> type, int length, StorageTier... tiers) {
        if (length < 0) {
            throw new IllegalArgumentException("an array of " + length + " elements");
        }
        return Heap.of(pool)
                .change(() -> {
                    DurableArray<E> array =
                            new DurableArray<>(
                                    Anchor.create(
                                            Heap.of(pool),
                                            Anchor.ARRAY,
                                            type.codec,
                                            null,
                                            Medium.named(List.of(tiers))),
                                    type);
                    for (long i = 0; i < length; i += Cells.WIDTH) {
                        array.cells.ensure(Math.min(length, i + Cells.WIDTH));
                    }
                    array.anchor.resize(length);
                    return array;
                });
    }

    /// The array that a root of the pool leads to. If the root leads nowhere, a new array is made.
    ///
    /// @throws SchemaMismatchException if it leads to something else, or to an array of another
    ///   length
    public static <E> DurableArray<E> root(
            Pool pool, String name, ElementType<E> type, int length, StorageTier... tiers) {
        DurableArray<E> array =
                Anchor.root(
                        Heap.of(pool),
                        name,
                        reference -> at(pool, reference, type),
                        () -> create(pool, type, length, tiers).reference());
        if (array.size() != length) {
            throw new SchemaMismatchException(
                    "the root "
                            + name
                            + " is an array of "
                            + array.size()
                            + " elements, not of "
                            + length);
        }
        return array;
    }

    /// The array that a reference leads to.
    ///
    /// @throws dev.terrace.objects.StaleReferenceException if it has been deleted
    /// @throws SchemaMismatchException if it leads to something else
    public static <E> DurableArray<E> at(Pool pool, long reference, ElementType<E> type) {
        return new DurableArray<>(
                Anchor.open(Heap.of(pool), reference, Anchor.ARRAY, type.codec, null), type);
    }
}
