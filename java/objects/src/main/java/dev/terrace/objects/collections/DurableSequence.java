package dev.terrace.objects.collections;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableObject;
import dev.terrace.objects.Pool;
import dev.terrace.objects.internal.collections.Anchor;
import dev.terrace.objects.internal.collections.Cells;
import dev.terrace.objects.internal.collections.ElementCodec;
import dev.terrace.objects.internal.store.Store;
import java.util.AbstractList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.ListIterator;
import java.util.Objects;
import java.util.RandomAccess;
import java.util.function.IntFunction;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;

/// The common part of durable lists and arrays: elements with numbers, which can be replaced.
///
/// @param <E> the elements' class
public abstract sealed class DurableSequence<E> extends AbstractList<E>
        implements RandomAccess, DurableCollection permits DurableList, DurableArray {
    final Anchor anchor;
    final ElementCodec<E> type;
    final Cells cells;
    private final Store store;
    private final IntFunction<@Nullable E> loaded = this::load;

    DurableSequence(Anchor anchor, ElementType<E> type) {
        this.anchor = anchor;
        this.type = type.codec;
        store = anchor.store;
        cells = new Cells(anchor, this.type.needsPresence());
    }

    @Override
    public final Pool pool() {
        return (Pool) anchor.heap.owner();
    }

    @Override
    public final long reference() {
        return anchor.reference();
    }

    @Override
    public final boolean isAlive() {
        return anchor.isAlive();
    }

    @Override
    public final void delete() {
        anchor.delete();
    }

    @Override
    public final int size() {
        return Anchor.toInt(anchor.read(anchor::size));
    }

    @Override
    public final @Nullable E get(int index) {
        return settled(index, loaded);
    }

    /// The object with this number, by the handle of a cursor, so that objects are read in any
    /// order without a handle for each of them.
    ///
    /// @param cursor of the elements' class, in the same pool; it goes to the object
    /// @return the cursor's handle, the same each time; null if the element is null
    /// @throws IllegalArgumentException if the elements are no durable objects, or if the cursor is
    ///   of another pool
    /// @throws dev.terrace.objects.SchemaMismatchException if they are of another class than the
    ///   cursor's
    public final <D extends DurableObject> @Nullable D read(int index, Cursor<D> cursor) {
        if (!type.isObject() || cursor.pool() != pool()) {
            throw new IllegalArgumentException(
                    type.isObject()
                            ? "a cursor of another pool cannot go to an element"
                            : "elements of class " + type.name() + " are no durable objects");
        }
        return settled(
                index,
                number -> {
                    long word = word(number);
                    return word == 0 ? null : cursor.at(word);
                });
    }

    /// The result of `load` for an element, of one committed state.
    private <T extends @Nullable Object> T settled(int index, IntFunction<T> load) {
        try {
            long changes = store.epoch().changes();
            if (store.isInPlace()) {
                T element = load.apply(index);
                if (store.epoch().isStill(changes)) {
                    return element;
                }
            }
        } catch (RuntimeException | InternalError e) {
            // It is read again below, which tells a concurrent change from an error or damage.
        }
        return anchor.read(() -> load.apply(index));
    }

    /// The word of an element; 0 if it is null.
    private long word(int index) {
        long leaf = checkedLeaf(index);
        return cells.isPresent(leaf, index) ? store.word(Cells.at(leaf, index)) : 0;
    }

    private long checkedLeaf(int index) {
        anchor.check();
        Objects.checkIndex((long) index, anchor.size());
        return cells.leaf(index);
    }

    private @Nullable E load(int index) {
        long leaf = checkedLeaf(index);
        return cells.isPresent(leaf, index) ? type.load(anchor, Cells.at(leaf, index)) : null;
    }

    @Override
    public final @Nullable E set(int index, @Nullable E element) {
        Objects.checkIndex(index, size());
        requireElement(element);
        return anchor.change(() -> {
            E old = load(index);
            long leaf = cells.leaf(index);
            long word = store.word(Cells.at(leaf, index));
            cells.set(index, type.store(anchor, element), element != null);
            if (type.isBuffered()) {
                anchor.heap.buffers().free(word);
            }
            return old;
        });
    }

    /// Rejects an invalid element, or one of another pool, without failing the enclosing
    /// transaction.
    final void requireElement(@Nullable E element) {
        if (element != null) {
            type.requireFor(anchor.heap, element);
        }
    }

    @Override
    public void replaceAll(UnaryOperator<E> operator) {
        anchor.change(() -> {
            super.replaceAll(operator);
            return null;
        });
    }

    @Override
    public void sort(@Nullable Comparator<? super E> comparator) {
        anchor.change(() -> {
            super.sort(comparator);
            return null;
        });
    }

    /// Removes a range of elements that is not empty.
    void removeSome(int from, int to) {
        throw new UnsupportedOperationException();
    }

    @Override
    public final Iterator<E> iterator() {
        return whole().iterator();
    }

    @Override
    public final ListIterator<E> listIterator(int index) {
        return whole().listIterator(index);
    }

    @Override
    public final List<E> subList(int from, int to) {
        Objects.checkFromToIndex(from, to, size());
        return anchor.read(() -> {
            Objects.checkFromToIndex(from, to, size());
            return new SequenceRange<>(this, from, to - from);
        });
    }

    private SequenceRange<E> whole() {
        return anchor.read(() -> new SequenceRange<>(this, 0, size()));
    }

    @Override
    public boolean contains(@Nullable Object value) {
        return indexOf(value) >= 0;
    }

    @Override
    public int indexOf(@Nullable Object value) {
        return anchor.read(() -> super.indexOf(value));
    }

    @Override
    public int lastIndexOf(@Nullable Object value) {
        return anchor.read(() -> super.lastIndexOf(value));
    }

    @Override
    public Object[] toArray() {
        return anchor.read(super::toArray);
    }

    @Override
    public <T> T[] toArray(T[] array) {
        return anchor.read(() -> super.toArray(array));
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
        return anchor.text("[]", this);
    }
}
