package dev.terrace.objects.collections;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.internal.collections.Anchor;
import dev.terrace.objects.internal.collections.FieldUse;
import java.util.Collection;
import java.util.Map;
import java.util.SortedMap;
import org.jspecify.annotations.Nullable;

/// A handle of an object that may own collections: what generated classes are made of.
///
/// Such a field is a reference to a collection of the object's own. The collection is deleted when
/// the object is, and when another is set.
public abstract class CollectionOwner extends DurableObject {
    /// A handle that leads nowhere yet.
    protected CollectionOwner() {}

    /// The list of field `field`, or null.
    protected final <E> @Nullable DurableList<E> getList(int field, int at, ElementType<E> type) {
        DurableList<E> list =
                getCollection(field, reference -> DurableList.at(pool(), reference, type));
        count(list == null ? null : list.anchor, field);
        return list;
    }

    /// Sets field `field` to a new list of the same elements, which the object owns, and deletes
    /// the one it had.
    protected final <E> void setList(
            int field, int at, ElementType<E> type, @Nullable Collection<? extends E> value) {
        setCollection(
                field,
                value,
                copied -> {
                    DurableList<E> list = DurableList.create(pool(), type, tiers(field));
                    count(list.anchor, field);
                    list.addAll(copied);
                    return list.reference();
                });
    }

    /// The map of field `field`, or null.
    protected final <K, V> @Nullable DurableMap<K, V> getMap(
            int field, int at, ElementType<K> keys, ElementType<V> values) {
        DurableMap<K, V> map =
                getCollection(field, reference -> DurableMap.at(pool(), reference, keys, values));
        count(map == null ? null : map.anchor, field);
        return map;
    }

    /// Sets field `field` to a new map of the same entries, which the object owns, and deletes the
    /// one it had.
    protected final <K, V> void setMap(
            int field,
            int at,
            ElementType<K> keys,
            ElementType<V> values,
            @Nullable Map<? extends K, ? extends V> value) {
        setCollection(
                field,
                value,
                copied -> {
                    DurableMap<K, V> map = DurableMap.create(pool(), keys, values, tiers(field));
                    count(map.anchor, field);
                    map.putAll(copied);
                    return map.reference();
                });
    }

    /// The sorted map of field `field`, or null.
    protected final <K, V> @Nullable DurableTree<K, V> getTree(
            int field, int at, ElementType<K> keys, ElementType<V> values) {
        DurableTree<K, V> tree =
                getCollection(field, reference -> DurableTree.at(pool(), reference, keys, values));
        count(tree == null ? null : tree.anchor, field);
        return tree;
    }

    /// Sets field `field` to a new sorted map of the same entries, which the object owns, and
    /// deletes the one it had.
    protected final <K, V> void setTree(
            int field,
            int at,
            ElementType<K> keys,
            ElementType<V> values,
            @Nullable SortedMap<? extends K, ? extends V> value) {
        setCollection(
                field,
                value,
                copied -> {
                    DurableTree<K, V> tree = DurableTree.create(pool(), keys, values, tiers(field));
                    count(tree.anchor, field);
                    tree.putAll(copied);
                    return tree.reference();
                });
    }

    /// The set of field `field`, or null.
    protected final <E> @Nullable DurableSet<E> getSet(int field, int at, ElementType<E> type) {
        DurableSet<E> set =
                getCollection(field, reference -> DurableSet.at(pool(), reference, type));
        count(set == null ? null : set.anchor, field);
        return set;
    }

    /// Sets field `field` to a new set of the same elements, which the object owns, and deletes the
    /// one it had.
    protected final <E> void setSet(
            int field, int at, ElementType<E> type, @Nullable Collection<? extends E> value) {
        setCollection(
                field,
                value,
                copied -> {
                    DurableSet<E> set = DurableSet.create(pool(), type);
                    count(set.anchor, field);
                    set.addAll(copied);
                    return set.reference();
                });
    }

    /// The sorted set of field `field`, or null.
    protected final <E> @Nullable DurableSortedSet<E> getSortedSet(
            int field, int at, ElementType<E> type) {
        DurableSortedSet<E> set =
                getCollection(field, reference -> DurableSortedSet.at(pool(), reference, type));
        count(set == null ? null : set.anchor, field);
        return set;
    }

    /// Sets field `field` to a new sorted set of the same elements, which the object owns, and
    /// deletes the one it had.
    protected final <E> void setSortedSet(
            int field, int at, ElementType<E> type, @Nullable Collection<? extends E> value) {
        setCollection(
                field,
                value,
                copied -> {
                    DurableSortedSet<E> set = DurableSortedSet.create(pool(), type);
                    count(set.anchor, field);
                    set.addAll(copied);
                    return set.reference();
                });
    }

    private StorageTier[] tiers(int field) {
        return tiersOf(field).toArray(new StorageTier[0]);
    }

    /// From now on what is done with values in a collection counts as done with the field.
    private void count(@Nullable Anchor anchor, int field) {
        if (anchor != null) {
            anchor.countBy(
                    new FieldUse() {
                        @Override
                        public void read(long bytes) {
                            countRead(field, bytes);
                        }

                        @Override
                        public void written(long bytes) {
                            countWritten(field, bytes);
                        }
                    });
        }
    }
}
