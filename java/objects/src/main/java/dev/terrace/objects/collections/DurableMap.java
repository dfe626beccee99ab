package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.internal.collections.Anchor;
import dev.terrace.objects.internal.collections.ElementCodec;
import dev.terrace.objects.internal.collections.Hash;
import dev.terrace.objects.internal.collections.HashTable;
import dev.terrace.objects.internal.collections.Heap;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Store;
import java.util.AbstractMap;
import java.util.Collection;
import java.util.ConcurrentModificationException;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// A hash map in a pool. Keys and values may be null.
///
/// The map grows by one bucket at a time, so that no change is large, and keeps its buckets until
/// it is cleared. The order of its entries is not specified. An entry that an iterator returns
/// keeps the value that it had at that time.
///
/// @param <K> the keys' class
/// @param <V> the values' class
public final class DurableMap<K, V> extends AbstractMap<K, V> implements DurableCollection {
    final Anchor anchor;
    private final ElementCodec<K> keyType;
    private final ElementCodec<V> valueType;
    private final HashTable table;
    private final Heap heap;
    private final Store store;

    private DurableMap(Anchor anchor, ElementType<K> keyType, ElementType<V> valueType) {
        this.anchor = anchor;
        this.keyType = keyType.codec;
        this.valueType = valueType.codec;
        heap = anchor.heap;
        store = anchor.store;
        table = new HashTable(anchor, this.keyType.isBuffered(), this.valueType.isBuffered());
    }

    /// Makes an empty map.
    ///
    /// @param tiers the tiers of values of more than a word, the best first; without any, PMEM.
    ///   Keys are kept in PMEM
    public static <K, V> DurableMap<K, V> create(
            Pool pool, ElementType<K> keys, ElementType<V> values, StorageTier... tiers) {
        return Heap.of(pool)
                .change(() -> {
                    Anchor anchor =
                            Anchor.create(
                                    Heap.of(pool),
                                    Anchor.MAP,
                                    keys.codec.requireKey(),
                                    values.codec,
                                    Medium.named(List.of(tiers)));
                    HashTable.setSeed(anchor, Hash.of(anchor.header, anchor.store.sequence()));
                    return new DurableMap<>(anchor, keys, values);
                });
    }

    /// The map that a root of the pool leads to. If the root leads nowhere, a new map is made.
    ///
    /// @throws dev.terrace.objects.SchemaMismatchException if it leads to something else
    public static <K, V> DurableMap<K, V> root(
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
    public static <K, V> DurableMap<K, V> at(
            Pool pool, long reference, ElementType<K> keys, ElementType<V> values) {
        return new DurableMap<>(
                Anchor.open(Heap.of(pool), reference, Anchor.MAP, keys.codec, values.codec),
                keys,
                values);
    }

    @Override
    public Pool pool() {
        return (Pool) heap.owner();
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

    @Override
    public int size() {
        return Anchor.toInt(anchor.read(anchor::size));
    }

    @Override
    public @Nullable V get(@Nullable Object key) {
        if (key != null && !keyType.isInstance(key)) {
            return null;
        }
        byte[] bytes = anchor.bytes(keyType, key);
        long word = keyType.word(key);
        long hash = Hash.of(table.seed, word, bytes);
        try {
            long changes = store.epoch().changes();
            if (store.isInPlace()) {
                long place = table.findInPlace(changes, hash, word, bytes, key == null);
                V value = place < 0 ? null : valueOf(place);
                if (store.epoch().isStill(changes)) {
                    return value;
                }
            }
        } catch (RuntimeException | InternalError e) {
            // It is read again below, which tells a concurrent change from an error or damage.
        }
        return heap.read(() -> load(hash, word, bytes, key == null));
    }

    private @Nullable V load(long hash, long word, byte @Nullable [] bytes, boolean keyIsNull) {
        anchor.check();
        long place = table.find(hash, word, bytes, keyIsNull);
        return place < 0 ? null : valueOf(place);
    }

    private @Nullable V valueOf(long place) {
        return table.isValueNull(place)
                ? null
                : valueType.load(anchor, HashTable.valueAt(HashTable.entryOf(place)));
    }

    private @Nullable K keyOf(long place) {
        return table.isKeyNull(place) ? null : keyType.load(heap, HashTable.entryOf(place));
    }

    private long hashOf(@Nullable Object key) {
        return Hash.of(table.seed, keyType.word(key), keyType.bytes(key));
    }

    private long find(@Nullable Object key) {
        byte[] bytes = keyType.bytes(key);
        long word = keyType.word(key);
        return table.find(Hash.of(table.seed, word, bytes), word, bytes, key == null);
    }

    @Override
    public boolean containsKey(@Nullable Object key) {
        return (key == null || keyType.isInstance(key)) && anchor.read(() -> find(key) >= 0);
    }

    @Override
    public boolean containsValue(@Nullable Object value) {
        return anchor.read(() -> super.containsValue(value));
    }

    @Override
    public @Nullable V put(@Nullable K key, @Nullable V value) {
        requireEntry(key, value);
        return anchor.change(() -> {
            byte[] bytes = keyType.bytes(key);
            long word = keyType.word(key);
            long hash = Hash.of(table.seed, word, bytes);
            long place = table.find(hash, word, bytes, key == null);
            V old = place < 0 ? null : valueOf(place);
            long stored = valueType.store(anchor, value);
            if (place >= 0) {
                table.freeValue(place);
                table.setValue(hash, place, stored, value == null);
            } else {
                long keyWord = keyType.storeKey(heap, key);
                table.add(hash, keyWord, key == null, stored, value == null);
            }
            return old;
        });
    }

    /// Rejects an invalid key or value, or one of another pool, without failing the enclosing
    /// transaction.
    private void requireEntry(@Nullable Object key, @Nullable Object value) {
        if (key != null) {
            keyType.requireFor(heap, key);
        }
        if (value != null) {
            valueType.requireFor(heap, value);
        }
    }

    @Override
    public @Nullable V remove(@Nullable Object key) {
        return key != null && !keyType.isInstance(key)
                ? null
                : anchor.change(() -> {
                    long place = find(key);
                    V old = place < 0 ? null : valueOf(place);
                    if (place >= 0) {
                        table.remove(hashOf(key), place);
                    }
                    return old;
                });
    }

    @Override
    public void clear() {
        anchor.change(() -> {
            if (anchor.size() > 0) {
                anchor.clear();
            }
            return null;
        });
    }

    @Override
    public void putAll(Map<? extends K, ? extends V> entries) {
        entries.forEach(this::requireEntry);
        anchor.change(() -> {
            super.putAll(entries);
            return null;
        });
    }

    @Override
    public @Nullable V putIfAbsent(@Nullable K key, @Nullable V value) {
        requireEntry(key, value);
        return anchor.change(() -> super.putIfAbsent(key, value));
    }

    @Override
    public boolean remove(@Nullable Object key, @Nullable Object value) {
        return anchor.change(() -> super.remove(key, value));
    }

    @Override
    public @Nullable V replace(@Nullable K key, @Nullable V value) {
        requireEntry(key, value);
        return anchor.change(() -> super.replace(key, value));
    }

    @Override
    public boolean replace(@Nullable K key, @Nullable V oldValue, @Nullable V newValue) {
        requireEntry(key, newValue);
        return anchor.change(() -> super.replace(key, oldValue, newValue));
    }

    @Override
    public void replaceAll(BiFunction<? super K, ? super V, ? extends V> function) {
        anchor.change(() -> {
            super.replaceAll(function);
            return null;
        });
    }

    @Override
    public @Nullable V computeIfAbsent(@Nullable K key, Function<? super K, ? extends V> function) {
        return anchor.change(() -> super.computeIfAbsent(key, function));
    }

    @Override
    public @Nullable V computeIfPresent(
            @Nullable K key, BiFunction<? super K, ? super V, ? extends V> function) {
        return anchor.change(() -> super.computeIfPresent(key, function));
    }

    @Override
    public @Nullable V compute(
            @Nullable K key, BiFunction<? super K, ? super @Nullable V, ? extends V> function) {
        return anchor.change(() -> super.compute(key, function));
    }

    @Override
    public @Nullable V merge(
            @Nullable K key, V value, BiFunction<? super V, ? super V, ? extends V> function) {
        requireEntry(key, value);
        return anchor.change(() -> super.merge(key, value, function));
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
        return anchor.text("{}", entrySet());
    }

    @Override
    public Collection<V> values() {
        return new MapView.Values<>(this, anchor);
    }

    @Override
    public Set<Map.Entry<K, V>> entrySet() {
        return new MapView.Entries<>(this, anchor, EntryIterator<Map.Entry<K, V>>::new);
    }

    @Override
    public Set<K> keySet() {
        return new Keys();
    }

    private final class Keys extends MapView.Distinct<K> {
        Keys() {
            super(DurableMap.this, DurableMap.this.anchor);
        }

        @Override
        public boolean contains(@Nullable Object key) {
            return containsKey(key);
        }

        @Override
        public boolean remove(@Nullable Object key) {
            return (key == null || keyType.isInstance(key))
                    && anchor.change(() -> {
                        long place = find(key);
                        if (place >= 0) {
                            table.remove(hashOf(key), place);
                        }
                        return place >= 0;
                    });
        }

        @Override
        public Iterator<K> iterator() {
            return new EntryIterator<>((key, _) -> key);
        }
    }

    /// Walks through the buckets. Places are stable as long as no entry is added, and entries are
    /// removed through this iterator only.
    private final class EntryIterator<T> implements Iterator<T> {
        private final BiFunction<@Nullable K, @Nullable V, T> result;
        private int changes;
        private long bucket;
        private long[] places = {};
        private int next;
        private long last = -1;
        private @Nullable K lastKey;

        EntryIterator(BiFunction<@Nullable K, @Nullable V, T> result) {
            this.result = result;
            anchor.read(() -> {
                changes = anchor.changes();
                bucket = 0;
                advance();
                return null;
            });
        }

        private void advance() {
            next = 0;
            places = new long[0];
            long count = table.buckets();
            while (places.length == 0 && bucket < count) {
                places = table.places(bucket++);
            }
        }

        private void checkChanges() {
            if (anchor.changes() != changes) {
                throw new ConcurrentModificationException();
            }
        }

        @Override
        public boolean hasNext() {
            return next < places.length;
        }

        @Override
        public T next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            int now = next;
            long from = bucket;
            long[] of = places;
            return anchor.read(() -> {
                checkChanges();
                next = now;
                bucket = from;
                places = of;
                last = places[next++];
                lastKey = keyOf(last);
                T found = result.apply(lastKey, valueOf(last));
                if (next == places.length) {
                    advance();
                }
                return found;
            });
        }

        @Override
        public void remove() {
            if (last < 0) {
                throw new IllegalStateException("there is nothing to remove");
            }
            anchor.read(() -> {
                checkChanges();
                return null;
            });
            anchor.change(() -> {
                checkChanges();
                table.remove(hashOf(lastKey), last);
                changes = anchor.changes();
                return null;
            });
            last = -1;
        }
    }
}
