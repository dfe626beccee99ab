package dev.terrace.objects.collections;

import dev.terrace.objects.internal.collections.Anchor;
import java.util.AbstractCollection;
import java.util.AbstractMap.SimpleEntry;
import java.util.Iterator;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// Keys, values or entries of a durable map, or of a range of one, backed by it.
///
/// @param <E> what the view shows of each entry
abstract class MapView<E> extends AbstractCollection<E> {
    private final Map<?, ?> map;
    final Anchor anchor;

    MapView(Map<?, ?> map, Anchor anchor) {
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
    public Object[] toArray() {
        return anchor.read(super::toArray);
    }

    @Override
    public String toString() {
        return anchor.text("[]", this);
    }

    /// A view that is a set: that of keys, or of entries.
    abstract static class Distinct<E> extends MapView<E> implements Set<E> {
        Distinct(Map<?, ?> map, Anchor anchor) {
            super(map, anchor);
        }

        @Override
        public boolean equals(@Nullable Object other) {
            if (other == this) {
                return true;
            }
            try {
                return other instanceof Set<?> set && set.size() == size() && containsAll(set);
            } catch (ClassCastException | NullPointerException noElement) {
                return false;
            }
        }

        @Override
        public int hashCode() {
            int sum = 0;
            for (E element : this) {
                sum += Objects.hashCode(element);
            }
            return sum;
        }
    }

    /// The values.
    static final class Values<V> extends MapView<V> {
        private final Map<?, V> map;

        Values(Map<?, V> map, Anchor anchor) {
            super(map, anchor);
            this.map = map;
        }

        @Override
        public boolean contains(@Nullable Object value) {
            return map.containsValue(value);
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

    /// The entries: to set the value of one sets it in the map.
    static final class Entries<K, V> extends Distinct<Map.Entry<K, V>> {
        private final Map<K, V> map;
        private final Function<
                        BiFunction<K, @Nullable V, Map.Entry<K, V>>, Iterator<Map.Entry<K, V>>>
                iterator;

        /// @param iterator makes an iterator over the map's entries
        Entries(
                Map<K, V> map,
                Anchor anchor,
                Function<BiFunction<K, @Nullable V, Map.Entry<K, V>>, Iterator<Map.Entry<K, V>>>
                        iterator) {
            super(map, anchor);
            this.map = map;
            this.iterator = iterator;
        }

        @Override
        public boolean contains(@Nullable Object entry) {
            return entry instanceof Map.Entry<?, ?> wanted
                    && anchor.read(() -> {
                        Object value = map.get(wanted.getKey());
                        return Objects.equals(value, wanted.getValue())
                                && (value != null || map.containsKey(wanted.getKey()));
                    });
        }

        @Override
        public boolean remove(@Nullable Object entry) {
            return entry instanceof Map.Entry<?, ?> wanted
                    && map.remove(wanted.getKey(), wanted.getValue());
        }

        @Override
        public Iterator<Map.Entry<K, V>> iterator() {
            return iterator.apply(WriteThrough::new);
        }

        private final class WriteThrough extends SimpleEntry<K, V> {
            @java.io.Serial private static final long serialVersionUID = 1L;

            WriteThrough(K key, @Nullable V value) {
                super(key, value);
            }

            @Override
            public @Nullable V setValue(@Nullable V value) {
                map.put(getKey(), value);
                return super.setValue(value);
            }
        }
    }
}
