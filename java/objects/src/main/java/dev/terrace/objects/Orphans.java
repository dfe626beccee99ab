package dev.terrace.objects;

import dev.terrace.objects.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Store;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/// Looks at what no root reaches: objects and collections may be so, with all that they own. A
/// buffer, a node or an extension that none of them owns cannot: transactions free what they cut
/// off, so it tells of a word that led there and is damaged.
final class Orphans implements Links {
    private final Pool pool;
    private final Store store;
    private final Set<Buffers.Place> owned = new HashSet<>();

    Orphans(Pool pool) {
        this.pool = pool;
        store = pool.store();
    }

    /// Those that nothing owns.
    ///
    /// @param leaks what no root reaches
    List<Buffers.Place> among(List<Buffers.Place> leaks) {
        leaks.stream().filter(this::isItsOwn).forEach(leak -> show(leak.offset()));
        return leaks.stream().filter(leak -> !isItsOwn(leak) && !owned.contains(leak)).toList();
    }

    private boolean isItsOwn(Buffers.Place leak) {
        int type = leak.disk() < 0 ? Pool.typeOf(store.word(leak.offset())) : 0;
        return Types.isClass(type) || CollectionRecords.isCollection(type);
    }

    private void show(long record) {
        try {
            Records.links(pool, record, this);
        } catch (PoolDamagedException | IndexOutOfBoundsException e) {
            // What it owns is named, as what led there is damaged.
            return;
        }
    }

    @Override
    public void owned(long offset) {
        if (owned.add(new Buffers.Place(-1, offset)) && store.isAllocated(-1, offset)) {
            show(offset);
        }
    }

    @Override
    public void slot(long owner, long at, List<StorageTier> tiers) {
        Buffers.Place leads = Buffers.place(store.word(at));
        if (leads != null) {
            owned.add(leads);
        }
    }

    @Override
    public void reference(long reference) {
        // What it leads to is not owned.
    }
}
