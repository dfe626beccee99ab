package dev.terrace.objects;

import dev.terrace.objects.internal.collections.CollectionRecords;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Finds values that should lie elsewhere, and moves them.
///
/// A move is part of a transaction of bounded size: the value is durable in its new place before
/// the slot leads there, and its old place is free after that. Other threads may write between
/// finding and moving; values that they have changed are left alone. An interrupted run has only
/// moved fewer values.
final class Migrator {
    private static final int VALUES_AT_ONCE = 64;
    private static final long BYTES_AT_ONCE = 4 << 20;

    /// The number of values of one record that are found in one step, because a step over a large
    /// collection takes a while.
    private static final int VALUES_PER_LOOK = 4096;

    private static final int RECORDS_PER_LOOK = 4096;

    private final Pool pool;
    private final Store store;
    private final Buffers buffers;

    /// Decides which values move, and where to.
    interface Goal {
        /// Whether values of the record at this offset, of this type, may move.
        default boolean looksAt(long record, int type) {
            return true;
        }

        /// Whether a value in this place, with these tiers, is to move.
        boolean wants(Buffers.Place place, List<Medium> tiers);

        /// Stores such a value in its new place, and returns its slot; [Buffers#NULL] if it does
        /// not move. In a transaction.
        ///
        /// @throws StoreFailure.Full if there is no room; the value does not move then
        long put(Buffers.Place place, List<Medium> tiers, byte[] bytes);
    }

    /// The result of a step.
    ///
    /// @param next where to continue; -1 at the end
    record Step(long next, long values, long bytes) {}

    /// A value that is to move. Its slot is at `at`, in the record or node at `owner`, and belongs
    /// to the record at `record` with this header and state. Its tiers are valid as long as the
    /// number of placement changes is `told`.
    private record Candidate(
            long record,
            long header,
            long state,
            int told,
            long owner,
            long at,
            long slot,
            List<Medium> tiers,
            long bytes) {}

    Migrator(Pool pool) {
        this.pool = pool;
        store = pool.store();
        buffers = pool.buffers();
    }

    /// Goes over some records from an offset of persistent memory on, and moves the values that a
    /// goal selects.
    Step step(long from, Goal goal) {
        List<Candidate> found = new ArrayList<>();
        long next = store.alone(() -> find(from, goal, found));
        Step moved = moveAll(found, goal);
        boolean again = found.size() >= VALUES_PER_LOOK && moved.values > 0;
        return new Step(again ? found.getLast().record : next, moved.values, moved.bytes);
    }

    /// Goes over all records once, and moves the values that a goal selects.
    Step run(Goal goal) {
        long values = 0;
        long bytes = 0;
        for (long next = 0; next >= 0; ) {
            Step step = step(next, goal);
            values += step.values;
            bytes += step.bytes;
            next = step.next;
        }
        return new Step(-1, values, bytes);
    }

    /// Moves the values that a goal selects among those that the pool itself owns.
    Step stepOfPool(Goal goal) {
        List<Candidate> found = new ArrayList<>();
        store.alone(() -> {
            pool.links(new Finder(0, goal, found));
            return true;
        });
        return moveAll(found, goal);
    }

    private long find(long from, Goal goal, List<Candidate> found) {
        long bytes = 0;
        long record = store.parts().nextAllocated(from);
        for (int i = 0; record >= 0 && i < RECORDS_PER_LOOK; i++) {
            int before = found.size();
            try {
                if (goal.looksAt(record, Headers.type(store.word(record)))) {
                    Records.links(pool, record, new Finder(record, goal, found));
                }
            } catch (StoreFailure.Damaged | IndexOutOfBoundsException e) {
                // A check reports the damage; no value of such a record moves.
                found.subList(before, found.size()).clear();
            }
            bytes += found.subList(before, found.size()).stream().mapToLong(Candidate::bytes).sum();
            if (found.size() >= VALUES_AT_ONCE || bytes >= BYTES_AT_ONCE) {
                return record + 1;
            }
            record = store.parts().nextAllocated(record + 1);
        }
        return record;
    }

    /// Receives the slots of a record; record 0 stands for the pool itself.
    private final class Finder implements Links {
        private final long record;
        private final long state;
        private final int told;
        private final Goal goal;
        private final List<Candidate> found;
        private final int most;

        Finder(long record, Goal goal, List<Candidate> found) {
            this.record = record;
            this.goal = goal;
            this.found = found;
            state = state(record);
            told = pool.placementChanges();
            most = found.size() + VALUES_PER_LOOK;
        }

        @Override
        public void owned(long offset) {
            // Only values move: other references lead to the places of records.
        }

        @Override
        public void slot(long owner, long at, List<Medium> tiers) {
            long slot = store.word(at);
            Buffers.Place place = Buffers.place(slot);
            if (place != null
                    && found.size() < most
                    && goal.wants(place, tiers)
                    && store.parts().isAllocated(place.disk(), place.offset())) {
                long holder = record == 0 ? owner : record;
                long bytes = store.parts().sizeOf(place.disk(), place.offset());
                found.add(
                        new Candidate(
                                holder,
                                store.word(holder),
                                state,
                                told,
                                owner,
                                at,
                                slot,
                                tiers,
                                bytes));
            }
        }

        @Override
        public void reference(long reference) {
            // Objects do not move.
        }
    }

    /// A number that changes when slots of a record move; 0 if they never do.
    private long state(long record) {
        boolean isCollection =
                record != 0 && CollectionRecords.isCollection(Headers.type(store.word(record)));
        return isCollection ? CollectionRecords.state(pool.heap(), record) : 0;
    }

    private Step moveAll(List<Candidate> candidates, Goal goal) {
        long values = 0;
        long bytes = 0;
        for (int from = 0; from < candidates.size(); ) {
            int to = from;
            for (long sum = 0;
                    to < candidates.size() && to < from + VALUES_AT_ONCE && sum < BYTES_AT_ONCE;
                    to++) {
                sum += candidates.get(to).bytes();
            }
            Step moved = move(candidates.subList(from, to), goal);
            values += moved.values;
            bytes += moved.bytes;
            from = to;
        }
        return new Step(-1, values, bytes);
    }

    /// Moves values that have not changed since they were found, in one transaction.
    private Step move(List<Candidate> candidates, Goal goal) {
        try {
            return store.transact(() -> {
                long values = 0;
                long moved = 0;
                for (Candidate value : candidates) {
                    byte[] bytes = isAsFound(value) ? wholeOf(value) : null;
                    long slot =
                            bytes == null
                                    ? Buffers.NULL
                                    : goal.put(Buffers.place(value.slot), value.tiers, bytes);
                    if (slot != Buffers.NULL) {
                        store.putWord(value.owner, value.at, slot);
                        buffers.free(value.slot);
                        values++;
                        moved += bytes.length;
                    }
                }
                return new Step(-1, values, moved);
            });
        } catch (StoreFailure.Full noRoomThere) {
            // Moved one at a time, some values may still fit. A single value without room stays
            // where it is.
            return candidates.size() == 1 ? new Step(-1, 0, 0) : moveEach(candidates, goal);
        }
    }

    /// The bytes of a value; null if they are damaged: the value stays, so that a check reports it,
    /// and other values move.
    private byte @Nullable [] wholeOf(Candidate value) {
        try {
            return buffers.get(value.at);
        } catch (StoreFailure.Damaged e) {
            return null;
        }
    }

    private Step moveEach(List<Candidate> candidates, Goal goal) {
        long values = 0;
        long bytes = 0;
        for (Candidate one : candidates) {
            Step moved = move(List.of(one), goal);
            values += moved.values;
            bytes += moved.bytes;
        }
        return new Step(-1, values, bytes);
    }

    /// Whether a value has not changed since it was found. If its tiers have changed, the code that
    /// changed them moves it. Elements that have moved leave old words behind that still lead to
    /// their buffers: therefore the state is compared, too.
    private boolean isAsFound(Candidate value) {
        return store.word(value.record) == value.header
                && state(value.record) == value.state
                && store.word(value.at) == value.slot
                && pool.placementChanges() == value.told;
    }
}
