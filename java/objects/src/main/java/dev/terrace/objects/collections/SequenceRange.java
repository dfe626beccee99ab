package dev.terrace.objects.collections;

import java.util.AbstractList;
import java.util.ArrayList;
import java.util.Collection;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.Objects;
import java.util.RandomAccess;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// A range of a durable sequence. Sublists are ranges, and iterators walk through a range.
///
/// A range is out of date when the sequence, as the current thread sees it, has changed other than
/// through the range. Therefore it compares the number of changes in the pool; [#modCount] counts
/// the changes through this range only, for its iterators.
///
/// @param <E> the elements' class
final class SequenceRange<E> extends AbstractList<E> implements RandomAccess {
    private final DurableSequence<E> sequence;
    private final @Nullable SequenceRange<E> outer;
    private final int offset;
    private int size;
    private int changes;

    SequenceRange(DurableSequence<E> sequence, int offset, int size) {
        this(sequence, null, offset, size);
    }

    private SequenceRange(
            DurableSequence<E> sequence, @Nullable SequenceRange<E> outer, int offset, int size) {
        this.sequence = sequence;
        this.outer = outer;
        this.offset = offset;
        this.size = size;
        changes = outer == null ? sequence.anchor.read(sequence.anchor::changes) : outer.changes;
    }

    private void check() {
        if (sequence.anchor.changes() != changes) {
            throw new ConcurrentModificationException();
        }
    }

    /// Reads from a range that is not out of date.
    private <T extends @Nullable Object> T read(Supplier<T> work) {
        return sequence.anchor.read(() -> {
            check();
            return work.get();
        });
    }

    /// Changes the sequence, and so this range and those around it, by so many elements.
    private void change(int elements, Runnable work) {
        read(() -> null);
        int now =
                sequence.anchor.change(() -> {
                    check();
                    work.run();
                    return sequence.anchor.changes();
                });
        for (SequenceRange<E> range = this; range != null; range = range.outer) {
            range.size += elements;
            range.changes = now;
            range.modCount++;
        }
    }

    @Override
    public int size() {
        return read(() -> size);
    }

    @Override
    public @Nullable E get(int index) {
        return read(() -> {
            Objects.checkIndex(index, size);
            return sequence.get(offset + index);
        });
    }

    @Override
    public @Nullable E set(int index, @Nullable E element) {
        Objects.checkIndex(index, size());
        return sequence.set(offset + index, element);
    }

    @Override
    public void add(int index, @Nullable E element) {
        Objects.checkIndex(index, size + 1);
        sequence.requireElement(element);
        change(1, () -> sequence.add(offset + index, element));
    }

    @Override
    public @Nullable E remove(int index) {
        E old = get(index);
        change(-1, () -> sequence.remove(offset + index));
        return old;
    }

    @Override
    protected void removeRange(int from, int to) {
        if (from < to) {
            change(from - to, () -> sequence.removeSome(offset + from, offset + to));
        }
    }

    @Override
    public boolean addAll(Collection<? extends E> elements) {
        return addAll(size, elements);
    }

    @Override
    public boolean addAll(int index, Collection<? extends E> elements) {
        Objects.checkIndex(index, size + 1);
        List<E> all = new ArrayList<>(elements);
        all.forEach(sequence::requireElement);
        if (all.isEmpty()) {
            read(() -> null);
            return false;
        }
        change(all.size(), () -> sequence.addAll(offset + index, all));
        return true;
    }

    @Override
    public String toString() {
        return sequence.anchor.text("[]", this);
    }

    @Override
    public List<E> subList(int from, int to) {
        Objects.checkFromToIndex(from, to, size());
        return new SequenceRange<>(sequence, this, offset + from, to - from);
    }
}
