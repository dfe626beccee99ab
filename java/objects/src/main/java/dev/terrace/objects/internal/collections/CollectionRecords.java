package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import java.util.List;

/// Collections as records of a heap, of any element type.
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
    public static String describe(Heap heap, long record) {
        int type = Headers.type(heap.store().word(record));
        return Anchor.kindName(type)
                + " of "
                + Anchor.sizeOf(heap.store().word(record + Anchor.STATE_AT));
    }

    /// Sets the tiers for new buffers of elements of the collection at `record`, and returns
    /// whether that is a change. Existing buffers stay. In a transaction.
    public static boolean setTiers(Heap heap, long record, List<Medium> tiers) {
        return Anchor.setTiers(heap, record, tiers);
    }

    /// A word that changes with each change of the collection at `record`, except when elements are
    /// replaced. As long as it stays the same, elements do not move.
    public static long state(Heap heap, long record) {
        return heap.store().word(record + Anchor.STATE_AT);
    }

    /// The bytes of the buffers of the collection at `record`, without those of keys. In a
    /// consistent read.
    public static long bytes(Heap heap, long record) {
        return Anchor.bytes(heap, record);
    }

    /// Shows the slots and nodes that the collection at `record` owns, and its references.
    public static void links(Heap heap, long record, Links links) {
        Anchor.links(heap, record, links);
    }

    /// Throws an exception if elements of the collection at `record` are misplaced or of other
    /// types. The slots that [#links] has shown are sound.
    ///
    /// @throws dev.terrace.objects.internal.store.StoreFailure.Damaged for the first damage that is
    ///   found
    public static void check(Heap heap, long record) {
        Anchor.check(heap, record);
    }

    /// Deletes the collection that a reference leads to. In a transaction.
    ///
    /// @throws dev.terrace.objects.internal.store.StoreFailure.Stale if it has been deleted
    public static void delete(Heap heap, long reference) {
        Anchor.delete(heap, reference);
    }
}
