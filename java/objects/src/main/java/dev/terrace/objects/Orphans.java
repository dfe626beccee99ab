package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/// Sorts the records and values that no root reaches. Objects and collections may be leaked, with
/// all that they own. A buffer, node or extension without an owner cannot be leaked, because
/// transactions free all that they cut off: it is a sign that a reference to it is damaged.
final class Orphans implements Links {
    private final Pool pool;
    private final Store store;
    private final Set<Buffers.Place> owned = new HashSet<>();

    Orphans(Pool pool) {
        this.pool = pool;
        store = pool.store();
    }

    /// The leaks that no object or collection owns.
    ///
    /// @param leaks all records and values that no root reaches
    List<Buffers.Place> among(List<Buffers.Place> leaks) {
        leaks.stream().filter(this::isItsOwn).forEach(leak -> show(leak.offset()));
        return leaks.stream().filter(leak -> !isItsOwn(leak) && !owned.contains(leak)).toList();
    }

    private boolean isItsOwn(Buffers.Place leak) {
        int type = leak.disk() < 0 ? Headers.type(store.word(leak.offset())) : 0;
        return Types.isClass(type) || CollectionRecords.isCollection(type);
    }

    private void show(long record) {
        try {
            Records.links(pool, record, this);
        } catch (StoreFailure.Damaged | IndexOutOfBoundsException e) {
            // The collection is damaged, so all that it owns is reported.
            return;
        }
    }

    @Override
    public void owned(long offset) {
        if (owned.add(new Buffers.Place(-1, offset)) && store.parts().isAllocated(-1, offset)) {
            show(offset);
        }
    }

    @Override
    public void slot(long owner, long at, List<Medium> tiers) {
        Buffers.Place leads = Buffers.place(store.word(at));
        if (leads != null) {
            owned.add(leads);
        }
    }

    @Override
    public void reference(long reference) {
        // Objects that it refers to are not owned.
    }
}
