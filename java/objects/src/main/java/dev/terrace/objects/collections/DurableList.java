package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.internal.collections.Anchor;
import dev.terrace.objects.internal.collections.Heap;
import dev.terrace.objects.internal.store.Medium;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/// A list in a pool. Elements may be null.
///
/// Adding or removing an element at the end changes a few words; elsewhere it moves the words of
/// all elements behind it.
///
/// @param <E> the elements' class
public final class DurableList<E> extends DurableSequence<E> {
    private DurableList(Anchor anchor, ElementType<E> type) {
        super(anchor, type);
    }

    /// Makes an empty list.
    ///
    /// @param tiers the tiers of elements of more than a word, the best first; without any, PMEM
    public static <E> DurableList<E> create(Pool pool, ElementType<E> type, StorageTier... tiers) {
        return Heap.of(pool)
                .change(() ->
                        new DurableList<>(
                                Anchor.create(
                                        Heap.of(pool),
                                        Anchor.LIST,
                                        type.codec,
                                        null,
                                        Medium.named(List.of(tiers))),
                                type));
    }

    /// The list that a root of the pool leads to. If the root leads nowhere, a new list is made.
    ///
    /// @throws dev.terrace.objects.SchemaMismatchException if it leads to something else
    public static <E> DurableList<E> root(
            Pool pool, String name, ElementType<E> type, StorageTier... tiers) {
        return Anchor.root(
                Heap.of(pool),
                name,
                reference -> at(pool, reference, type),
                () -> create(pool, type, tiers).reference());
    }

    /// The list that a reference leads to.
    ///
    /// @throws dev.terrace.objects.StaleReferenceException if it has been deleted
    /// @throws dev.terrace.objects.SchemaMismatchException if it leads to something else
    public static <E> DurableList<E> at(Pool pool, long reference, ElementType<E> type) {
        return new DurableList<>(
                Anchor.open(Heap.of(pool), reference, Anchor.LIST, type.codec, null), type);
    }

    @Override
    public boolean add(@Nullable E element) {
        requireElement(element);
        anchor.change(() -> {
            insert(anchor.size(), element);
            return null;
        });
        return true;
    }

    @Override
    public void add(int index, @Nullable E element) {
        requireElement(element);
        Objects.checkIndex(index, size() + 1L);
        anchor.change(() -> {
            Objects.checkIndex(index, anchor.size() + 1);
            insert(index, element);
            return null;
        });
    }

    private void insert(long index, @Nullable E element) {
        long size = anchor.size();
        cells.ensure(size + 1);
        for (long i = size; i > index; i--) {
            cells.copy(i - 1, i);
        }
        cells.set(index, type.store(anchor, element), element != null);
        anchor.resize(size + 1);
    }

    @Override
    public @Nullable E remove(int index) {
        Objects.checkIndex(index, size());
        return anchor.change(() -> {
            E old = get(index);
            removeNow(index, index + 1);
            return old;
        });
    }

    @Override
    protected void removeRange(int from, int to) {
        if (from < to) {
            removeSome(from, to);
        }
    }

    @Override
    void removeSome(int from, int to) {
        anchor.change(() -> {
            removeNow(from, to);
            return null;
        });
    }

    private void removeNow(long from, long to) {
        long size = anchor.size();
        Objects.checkFromToIndex(from, to, size);
        if (from == 0 && to == size) {
            anchor.clear();
            return;
        }
        if (type.isBuffered()) {
            cells.freeBuffers(from, to);
        }
        for (long i = to; i < size; i++) {
            cells.copy(i, from + i - to);
        }
        cells.trim(size - (to - from), size);
        anchor.resize(size - (to - from));
    }

    @Override
    public boolean addAll(Collection<? extends E> elements) {
        Object[] all = requireAll(elements);
        anchor.change(() -> {
            insertAll(anchor.size(), all);
            return null;
        });
        return all.length > 0;
    }

    @Override
    public boolean addAll(int index, Collection<? extends E> elements) {
        Objects.checkIndex(index, size() + 1L);
        Object[] all = requireAll(elements);
        anchor.change(() -> {
            Objects.checkIndex(index, anchor.size() + 1);
            insertAll(index, all);
            return null;
        });
        return all.length > 0;
    }

    @SuppressWarnings("unchecked")
    private Object[] requireAll(Collection<? extends E> elements) {
        Object[] all = elements.toArray();
        for (Object element : all) {
            requireElement((E) element);
        }
        return all;
    }

    private void insertAll(long index, @Nullable Object[] elements) {
        int count = elements.length;
        if (count == 0) {
            return;
        }
        long size = anchor.size();
        for (long i = size; i < size + count; i++) {
            cells.ensure(i + 1);
        }
        for (long i = size; i > index; i--) {
            cells.copy(i - 1, i - 1 + count);
        }
        for (int i = 0; i < count; i++) {
            cells.set(index + i, type.store(anchor, elements[i]), elements[i] != null);
        }
        anchor.resize(size + count);
    }

    @Override
    public boolean remove(@Nullable Object value) {
        return anchor.change(() -> super.remove(value));
    }

    @Override
    public boolean removeAll(Collection<?> values) {
        Objects.requireNonNull(values);
        return removeIf(values::contains);
    }

    @Override
    public boolean retainAll(Collection<?> values) {
        Objects.requireNonNull(values);
        return removeIf(element -> !values.contains(element));
    }

    /// Moves each element that stays only once.
    @Override
    public boolean removeIf(Predicate<? super E> filter) {
        Objects.requireNonNull(filter);
        return anchor.change(() -> {
            long size = anchor.size();
            boolean[] goes = new boolean[Anchor.toInt(size)];
            for (int i = 0; i < size; i++) {
                goes[i] = filter.test(get(i));
            }
            int kept = 0;
            for (int i = 0; i < size; i++) {
                if (!goes[i]) {
                    if (kept < i) {
                        cells.copy(i, kept);
                    }
                    kept++;
                } else if (type.isBuffered()) {
                    cells.freeBuffers(i, i + 1L);
                }
            }
            if (kept < size) {
                cells.trim(kept, size);
                anchor.resize(kept);
            }
            return kept < size;
        });
    }
}
