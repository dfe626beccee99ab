package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Store;
import java.util.ArrayList;
import java.util.List;

/// Frees objects and collections that no root reaches, in transactions of bounded size.
///
/// Invariant: each transaction frees an object or a collection with all that it owns. So after a
/// power cut the rest is leaked as before, and the next collection frees it. A collection that is
/// too large for one transaction is left to [dev.terrace.objects.internal.collections.Remains], as
/// one that is deleted.
final class Collector {
    private final Pool pool;
    private final Store store;
    private final int atOnce;

    /// @param atOnce the number of records and values in one transaction, unless a single object or
    ///   collection owns more
    Collector(Pool pool, int atOnce) {
        this.pool = pool;
        store = pool.store();
        this.atOnce = atOnce;
    }

    /// Frees all leaks.
    void free(Leaks leaks) {
        List<Leaks.Leak> together = new ArrayList<>();
        int parts = 0;
        for (Leaks.Leak leak : leaks.found()) {
            if (parts > 0 && parts + leak.parts().size() > atOnce) {
                freeTogether(together);
                together.clear();
                parts = 0;
            }
            together.add(leak);
            parts += leak.parts().size();
        }
        if (!together.isEmpty()) {
            freeTogether(together);
        }
    }

    private void freeTogether(List<Leaks.Leak> leaks) {
        pool.transact(() -> leaks.forEach(this::free));
    }

    private void free(Leaks.Leak leak) {
        long header = store.word(leak.record());
        boolean isCollection = CollectionRecords.isCollection(Headers.type(header));
        if (isCollection && leak.isWhole() && leak.parts().size() > atOnce) {
            CollectionRecords.delete(pool.heap(), References.of(leak.record(), header));
        } else {
            leak.parts().forEach(part -> store.free(part.disk(), part.offset()));
        }
    }
}
