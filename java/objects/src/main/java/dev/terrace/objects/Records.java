package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Store;
import java.util.List;

/// Shows the references of records, to all code that searches for slots, checks, or counts.
///
/// Showing all records, in the order of their addresses, and the slots that the pool itself owns
/// ([Pool#links(Links)]), shows each slot of the pool exactly once. The slots in the nodes of a
/// collection belong to its record.
final class Records {
    private Records() {}

    /// Shows the references of the object, extension or collection at `record`; nothing if another
    /// kind of record begins there. In a transaction, or a consistent read.
    ///
    /// @throws dev.terrace.objects.internal.store.StoreFailure.Damaged if a collection is damaged
    static void links(Pool pool, long record, Links links) {
        int type = Headers.type(pool.store().word(record));
        if (Types.formOf(type) != 0) {
            objectLinks(pool, record, pool.storedType(Types.formOf(type)), links);
        } else if (CollectionRecords.isCollection(type)) {
            CollectionRecords.links(pool.heap(), record, links);
        }
    }

    private static void objectLinks(Pool pool, long record, StoredType stored, Links links) {
        Store store = pool.store();
        long extension = store.word(record + Layout.EXTENSION_AT);
        if (extension != 0) {
            links.owned(extension);
        }
        Layout layout = stored.layout();
        List<List<Medium>> media = pool.media(stored);
        for (int i = 0; i < stored.fields().size(); i++) {
            FieldSpec field = stored.fields().get(i);
            if (layout.hasPlace(i) && !field.isInline()) {
                links.slot(record, layout.place(record, i), media.get(i));
            } else if (layout.hasPlace(i) && field.kind() == FieldKind.REFERENCE) {
                links.reference(store.word(layout.place(record, i)));
            }
        }
    }
}
