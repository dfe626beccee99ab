package dev.terrace.objects.collections;

import dev.terrace.objects.DurableObject;
import dev.terrace.objects.Pool;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.internal.store.Links;
import java.util.List;

/// Collections as records of a pool, whatever they hold. For this library's own packages.
public final class CollectionRecords {
    private CollectionRecords() {}

    /// Whether a type's number is that of collections.
    public static boolean isCollection(int type) {
        return type >= Anchor.LIST && type <= Anchor.TREE;
    }

    /// What is said of records with this number; null if they are no part of a collection.
    public static @org.jspecify.annotations.Nullable String nameOf(int type) {
        return isCollection(type)
                ? Anchor.kindName(type) + "s"
                : type == Anchor.NODE || type == Anchor.REMAINS ? "nodes of collections" : null;
    }

    /// What the collection at `record` is, and how many elements it has.
    public static String describe(Pool pool, long record) {
        int type = Pool.typeOf(pool.store().word(record));
        return Anchor.kindName(type)
                + " of "
                + Anchor.sizeOf(pool.store().word(record + Anchor.STATE_AT));
    }

    /// Has buffers of elements of the collection at `record` lie on these tiers from now on; those
    /// that are there stay. Whether that is a change. In a transaction.
    public static boolean setTiers(Pool pool, long record, List<StorageTier> tiers) {
        return Anchor.setTiers(pool, record, tiers);
    }

    /// A word that is another after the collection at `record` has changed other than by replacing
    /// elements: as long as it is the same, elements are where they were.
    public static long state(Pool pool, long record) {
        return pool.store().word(record + Anchor.STATE_AT);
    }

    /// From now on what is done by this handle counts, for who makes a profile, as done with the
    /// field that led to it.
    public static void ownedBy(DurableCollection collection, DurableObject owner, int field) {
        Anchor anchor =
                switch (collection) {
                    case DurableSequence<?> sequence -> sequence.anchor;
                    case DurableMap<?, ?> map -> map.anchor;
                    case DurableTree<?, ?> tree -> tree.anchor;
                };
        anchor.ownedBy(owner, field);
    }

    /// Bytes of the texts and bytes that the collection at `record` holds, keys not counted. In a
    /// consistent read.
    public static long bytes(Pool pool, long record) {
        return Anchor.bytes(pool, record);
    }

    /// Shows what the collection at `record` owns, and where it leads.
    public static void links(Pool pool, long record, Links links) {
        Anchor.links(pool, record, links);
    }

    /// Throws if what the collection at `record` holds is not in its places, or not of its types;
    /// what [#links] has shown is sound.
    ///
    /// @throws dev.terrace.objects.PoolDamagedException with what is wrong first
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
