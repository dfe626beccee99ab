package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.IntPredicate;

/// Sorts the records and values that no root reaches. Objects and collections may be leaked, with
/// all that they own. A buffer, node or extension without an owner cannot be leaked, because
/// transactions free all that they cut off: it is a sign that a reference to it is damaged.
final class Leaks implements Links {
    private final Pool pool;
    private final Store store;

    /// Parts without a known owner.
    private final Set<Buffers.Place> left;

    private final List<Leak> found = new ArrayList<>();
    private final List<Buffers.Place> orphans;

    /// The parts of the present object or collection.
    private List<Buffers.Place> parts = new ArrayList<>();

    private boolean isWhole;

    /// An object or a collection with all that it owns. Each part belongs to one of them only.
    ///
    /// @param record where the object or collection begins
    /// @param parts what is to be freed, with the record itself
    /// @param isWhole whether it leads to its own parts only, which is so unless it is damaged
    record Leak(long record, List<Buffers.Place> parts, boolean isWhole) {}

    /// Sorts them.
    ///
    /// @param leaks all records and values that no root reaches
    Leaks(Pool pool, List<Buffers.Place> leaks) {
        this.pool = pool;
        store = pool.store();
        left = new HashSet<>(leaks);
        find(leaks, Types::isClass);
        find(leaks, CollectionRecords::isCollection);
        orphans = leaks.stream().filter(left::contains).toList();
    }

    /// The objects, then the collections: an object leads to its collections, so it goes before
    /// them.
    List<Leak> found() {
        return found;
    }

    /// The parts that no object or collection owns.
    List<Buffers.Place> orphans() {
        return orphans;
    }

    private void find(List<Buffers.Place> leaks, IntPredicate isOwner) {
        for (Buffers.Place leak : leaks) {
            if (leak.disk() < 0
                    && isOwner.test(Headers.type(store.word(leak.offset())))
                    && left.contains(leak)) {
                parts = new ArrayList<>();
                isWhole = true;
                owned(leak.offset());
                found.add(new Leak(leak.offset(), parts, isWhole));
            }
        }
    }

    private boolean take(Buffers.Place place) {
        boolean isNew = left.remove(place);
        if (isNew) {
            parts.add(place);
        }
        isWhole &= isNew;
        return isNew;
    }

    @Override
    public void owned(long offset) {
        if (!take(new Buffers.Place(-1, offset))) {
            return;
        }
        try {
            Records.links(pool, offset, this);
        } catch (StoreFailure.Damaged | IndexOutOfBoundsException e) {
            // The collection is damaged, so all that it owns is an orphan.
            isWhole = false;
        }
    }

    @Override
    public void slot(long owner, long at, List<Medium> tiers) {
        Buffers.Place leads = Buffers.place(store.word(at));
        if (leads != null) {
            take(leads);
        }
    }

    @Override
    public void reference(long reference) {
        // Objects that it refers to are not owned.
    }
}
