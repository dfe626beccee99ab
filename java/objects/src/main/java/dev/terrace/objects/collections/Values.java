package dev.terrace.objects.collections;

import java.util.AbstractCollection;
import java.util.Iterator;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The values of a durable map, backed by it.
final class Values<V> extends AbstractCollection<V> {
    private final Map<?, V> map;
    private final Anchor anchor;

    Values(Map<?, V> map, Anchor anchor) {
        this.map = map;
        this.anchor = anchor;
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
    public void clear() {
        map.clear();
    }

    @Override
    public boolean contains(@Nullable Object value) {
        return map.containsValue(value);
    }

    @Override
    public Object[] toArray() {
        return anchor.read(super::toArray);
    }

    @Override
    public String toString() {
        return anchor.text("[]", this);
    }

    @Override
    public Iterator<V> iterator() {
        return over(map.entrySet().iterator());
    }

    private static <E extends Map.Entry<?, V>, V> Iterator<V> over(Iterator<E> entries) {
        return new Iterator<>() {
            @Override
            public boolean hasNext() {
                return entries.hasNext();
            }

            @Override
            public V next() {
                return entries.next().getValue();
            }

            @Override
            public void remove() {
                entries.remove();
            }
        };
    }
}
