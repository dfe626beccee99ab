package dev.terrace.objects.collections;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.Pool;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.internal.store.Links;
import java.util.List;

/// Collections as records of a pool, of any element type. For this library's own packages.
public final class CollectionRecords {
    private CollectionRecords() {}

    /// Whether a type's number is that of collections.
    public static boolean isCollection(int type) {
        return type >= Anchor.LIST && type <= Anchor.TREE;
    }

    /// The name of records with this type number; null if they are not part of a collection.
    public static @org.jspecify.annotations.Nullable String nameOf(int type) {
        return isCollection(type)
                ? Anchor.kindName(type) + "s"
                : type == Anchor.NODE || type == Anchor.REMAINS ? "nodes of collections" : null;
    }

    /// The kind of the collection at `record`, and the number of its elements.
    public static String describe(Pool pool, long record) {
        int type = Pool.typeOf(pool.store().word(record));
        return Anchor.kindName(type)
                + " of "
                + Anchor.sizeOf(pool.store().word(record + Anchor.STATE_AT));
    }

    /// Sets the tiers for new buffers of elements of the collection at `record`, and returns
    /// whether that is a change. Existing buffers stay. In a transaction.
    public static boolean setTiers(Pool pool, long record, List<StorageTier> tiers) {
        return Anchor.setTiers(pool, record, tiers);
    }

    /// A word that changes with each change of the collection at `record`, except when elements are
    /// replaced. As long as it stays the same, elements do not move.
    public static long state(Pool pool, long record) {
        return pool.store().word(record + Anchor.STATE_AT);
    }

    /// From now on, a profile counts accesses through this handle as accesses to this field.
    public static void ownedBy(DurableCollection collection, DurableObject owner, int field) {
        Anchor anchor =
                switch (collection) {
                    case DurableSequence<?> sequence -> sequence.anchor;
                    case DurableMap<?, ?> map -> map.anchor;
                    case DurableTree<?, ?> tree -> tree.anchor;
                };
        anchor.ownedBy(owner, field);
    }

    /// The bytes of the strings and byte arrays in the collection at `record`, without keys. In a
    /// consistent read.
    public static long bytes(Pool pool, long record) {
        return Anchor.bytes(pool, record);
    }

    /// Shows the slots and nodes that the collection at `record` owns, and its references.
    public static void links(Pool pool, long record, Links links) {
        Anchor.links(pool, record, links);
    }

    /// Throws an exception if elements of the collection at `record` are misplaced or of other
    /// types. The slots that [#links] has shown are sound.
    ///
    /// @throws dev.terrace.objects.PoolDamagedException for the first damage that is found
    public static void check(Pool pool, long record) {
        Anchor.check(pool, record);
    }

    /// Deletes the collection that a reference leads to. In a transaction.
    ///
    /// @throws dev.terrace.objects.StaleReferenceException if it has been deleted
    public static void delete(Pool pool, long reference) {
        Anchor.delete(pool, reference);
    }
}
