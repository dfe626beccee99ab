package dev.terrace.objects.collections;

import java.util.AbstractMap.SimpleEntry;
import java.util.AbstractSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Objects;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// The entries of a durable map, backed by it.
final class EntrySet<K, V> extends AbstractSet<Map.Entry<K, V>> {
    private final Map<K, V> map;
    private final Anchor anchor;
    private final Function<BiFunction<K, @Nullable V, Map.Entry<K, V>>, Iterator<Map.Entry<K, V>>>
            iterator;

    /// @param iterator makes an iterator over the map's entries
    EntrySet(
            Map<K, V> map,
            Anchor anchor,
            Function<BiFunction<K, @Nullable V, Map.Entry<K, V>>, Iterator<Map.Entry<K, V>>>
                    iterator) {
        this.map = map;
        this.anchor = anchor;
        this.iterator = iterator;
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
    public Object[] toArray() {
        return anchor.read(super::toArray);
    }

    @Override
    public String toString() {
        return anchor.text("[]", this);
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
