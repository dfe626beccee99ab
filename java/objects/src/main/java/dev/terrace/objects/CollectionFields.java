package dev.terrace.objects;

import dev.terrace.objects.collections.CollectionRecords;
import dev.terrace.objects.collections.DurableCollection;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.util.Collection;
import java.util.Map;
import java.util.SortedMap;
import java.util.function.Function;
import java.util.function.LongFunction;
import org.jspecify.annotations.Nullable;

/// Fields that are collections. An object owns the collections of its fields: it deletes them when
/// it is deleted, or when another collection is set.
final class CollectionFields {
    private final Pool pool;
    private final Fields fields;

    CollectionFields(Pool pool) {
        this.pool = pool;
        fields = pool.fields();
    }

    <E> @Nullable DurableList<E> getList(DurableObject object, int field, ElementType<E> type) {
        return get(object, field, reference -> DurableList.at(pool, reference, type));
    }

    <E> void setList(
            DurableObject object,
            int field,
            ElementType<E> type,
            @Nullable Collection<? extends E> value) {
        set(
                object,
                field,
                value,
                copied -> {
                    DurableList<E> list = DurableList.create(pool, type, tiers(object, field));
                    CollectionRecords.ownedBy(list, object, field);
                    list.addAll(copied);
                    return list;
                });
    }

    <K, V> @Nullable DurableMap<K, V> getMap(
            DurableObject object, int field, ElementType<K> keys, ElementType<V> values) {
        return get(object, field, reference -> DurableMap.at(pool, reference, keys, values));
    }

    <K, V> void setMap(
            DurableObject object,
            int field,
            ElementType<K> keys,
            ElementType<V> values,
            @Nullable Map<? extends K, ? extends V> value) {
        set(
                object,
                field,
                value,
                copied -> {
                    DurableMap<K, V> map =
                            DurableMap.create(pool, keys, values, tiers(object, field));
                    CollectionRecords.ownedBy(map, object, field);
                    map.putAll(copied);
                    return map;
                });
    }

    <K, V> @Nullable DurableTree<K, V> getTree(
            DurableObject object, int field, ElementType<K> keys, ElementType<V> values) {
        return get(object, field, reference -> DurableTree.at(pool, reference, keys, values));
    }

    <K, V> void setTree(
            DurableObject object,
            int field,
            ElementType<K> keys,
            ElementType<V> values,
            @Nullable SortedMap<? extends K, ? extends V> value) {
        set(
                object,
                field,
                value,
                copied -> {
                    DurableTree<K, V> tree =
                            DurableTree.create(pool, keys, values, tiers(object, field));
                    CollectionRecords.ownedBy(tree, object, field);
                    tree.putAll(copied);
                    return tree;
                });
    }

    private StorageTier[] tiers(DurableObject object, int field) {
        return pool.tiers(object.mapping(), field).toArray(new StorageTier[0]);
    }

    private <C extends DurableCollection> @Nullable C get(
            DurableObject object, int field, LongFunction<C> open) {
        C found =
                pool.read(() -> {
                    long reference = fields.getBits(object, field, FieldKind.REFERENCE);
                    return reference == 0 ? null : open.apply(reference);
                });
        if (found != null) {
            CollectionRecords.ownedBy(found, object, field);
        }
        return found;
    }

    /// The new collection may be a copy of the old one, so it is made before the old one is
    /// deleted.
    private <T> void set(
            DurableObject object,
            int field,
            @Nullable T value,
            Function<T, ? extends DurableCollection> copy) {
        fields.change(
                object,
                () -> {
                    long old = fields.getBits(object, field, FieldKind.REFERENCE);
                    long made = value == null ? 0 : copy.apply(value).reference();
                    fields.setBits(object, field, FieldKind.REFERENCE, made);
                    delete(old);
                });
    }

    /// Deletes the old collection of a field, unless it has already been deleted. In a transaction.
    void delete(long reference) {
        if (reference != 0
                && Pool.leadsTo(reference, pool.store().header(Pool.recordOf(reference)))) {
            CollectionRecords.delete(pool, reference);
        }
    }
}
