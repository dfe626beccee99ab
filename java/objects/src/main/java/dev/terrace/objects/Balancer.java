package dev.terrace.objects;

import dev.terrace.objects.store.Buffers;
import dev.terrace.objects.store.Store;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/// Moves values of fields with several tags: from persistent memory when something needs the room that has no other place, and back
/// there when there is room again.
///
/// A move is a transaction of its own: the value is durable at its new place before the field leads there. Back, values come
/// in the background, as long as an eighth of persistent memory is free, so that they are not sent away again at once.
final class Balancer {
    private static final int MOVED_AT_ONCE = 64;
    private static final int DEMOTED_SHARE = 16;
    private static final int FREE_SHARE = 8;

    private final Pool pool;
    private final Store store;
    private final Buffers buffers;
    private final AtomicLong promotedBytes = new AtomicLong();
    private final AtomicLong demotedBytes = new AtomicLong();

    /// Where the next look for something to demote begins. Guarded by the writer's lock.
    private long hand;
    private @Nullable Thread promoter;
    /// Something lies elsewhere than on its best tier: else nobody is to be woken, however much is freed.
    private volatile boolean spilled;
    private boolean wanted;
    private boolean stopping;

    /// A field that may move: of the record that begins here with this header, the slot at `at`.
    private record Candidate(long record, long header, long at, long slot, List<StorageTier> tiers) {}

    Balancer(Pool pool) {
        this.pool = pool;
        store = pool.store();
        buffers = pool.buffers();
        buffers.onSpillAndFree(this::spill, this::freed);
    }

    /// Bytes that came back to persistent memory since the pool was opened.
    long promotedBytes() {
        return promotedBytes.get();
    }

    /// Bytes that had to leave it.
    long demotedBytes() {
        return demotedBytes.get();
    }

    /// Makes room in persistent memory, at most a sixteenth of it. Called outside of transactions.
    ///
    /// @return whether there was anything to move away
    boolean makeRoom() {
        long wantedBytes = Math.max(1, store.pmem().extents() * store.pmem().extentBytes() / DEMOTED_SHARE);
        return store.alone(() -> {
            long moved = 0;
            boolean wrapped = false;
            while (moved < wantedBytes) {
                List<Candidate> some = new ArrayList<>();
                hand = find(hand, some, true);
                moved += move(some, true);
                // The first room that comes of it lets the disk grow, so that the next can go there, too.
                store.prepare();
                if (hand < 0) {
                    hand = 0;
                    if (wrapped) {
                        break;
                    }
                    wrapped = true;
                }
            }
            demotedBytes.addAndGet(moved);
            if (moved > 0) {
                spill();
            }
            return moved > 0;
        });
    }

    /// Looks at records from `from` on for fields that may move; returns where to go on, or -1 at the end.
    private long find(long from, List<Candidate> found, boolean down) {
        long record = store.nextAllocated(from);
        for (; record >= 0 && found.size() < MOVED_AT_ONCE; record = store.nextAllocated(record + 1)) {
            long header = store.word(record);
            if (Types.formOf(Pool.typeOf(header)) != 0) {
                look(record, header, found, down);
            }
        }
        return record;
    }

    private void look(long record, long header, List<Candidate> found, boolean down) {
        StoredType stored = pool.storedType(Types.formOf(Pool.typeOf(header)));
        List<FieldSpec> fields = stored.fields();
        int[] offsets = stored.layout().offsets();
        for (int i = 0; i < offsets.length; i++) {
            List<StorageTier> tiers = fields.get(i).tiers();
            if (!fields.get(i).isInline() && tiers.size() > 1 && tiers.getFirst() == StorageTier.PMEM && offsets[i] >= 0) {
                long slot = store.word(record + offsets[i]);
                Buffers.Place place = Buffers.place(slot);
                if (place != null && place.disk() < 0 == down) {
                    List<StorageTier> to = down ? tiers.subList(1, tiers.size()) : List.of(StorageTier.PMEM);
                    found.add(new Candidate(record, header, record + offsets[i], slot, to));
                }
            }
        }
    }

    /// Moves the values of fields that are still as they were found; returns how many bytes.
    private long move(List<Candidate> candidates, boolean down) {
        if (candidates.isEmpty()) {
            return 0;
        }
        try {
            return store.transact(() -> {
                long moved = 0;
                for (Candidate field : candidates) {
                    boolean isSame = store.word(field.record()) == field.header() && store.word(field.at()) == field.slot();
                    byte[] bytes = isSame ? buffers.get(field.at()) : null;
                    if (bytes != null) {
                        store.putWord(field.record(), field.at(), buffers.put(field.tiers(), bytes));
                        buffers.free(field.slot());
                        moved += bytes.length;
                    }
                }
                return moved;
            });
        } catch (PoolFullException noRoomThere) {
            // One at a time, some may still fit; and where that is not so either, there is nothing to be done.
            return candidates.size() == 1
                    ? 0
                    : candidates.stream().mapToLong(one -> move(List.of(one), down)).sum();
        }
    }

    private void spill() {
        spilled = true;
    }

    /// There will be room for what was sent away before, once the transaction has committed.
    private void freed() {
        if (spilled) {
            store.afterCommit(this::wakePromoter);
        }
    }

    private synchronized void wakePromoter() {
        if (!wanted && !stopping) {
            wanted = true;
            if (promoter == null) {
                promoter = Thread.ofPlatform().daemon().name("terrace-promoter").start(this::promote);
            }
            notifyAll();
        }
    }

    private void promote() {
        while (awaitWork()) {
            try {
                promoteAll();
            } catch (TerraceException e) {
                // The pool is closed, or has failed: whoever uses it is told.
                return;
            } catch (IllegalStateException | InternalError e) {
                return;
            }
        }
    }

    private synchronized boolean awaitWork() {
        while (!wanted && !stopping) {
            try {
                wait();
            } catch (InterruptedException e) {
                return false;
            }
        }
        wanted = false;
        return !stopping;
    }

    private synchronized boolean isStopping() {
        return stopping;
    }

    /// One look at all records, as long as there is room.
    private void promoteAll() {
        for (long next = 0; next >= 0 && !isStopping(); ) {
            if (store.roomInPmem() < store.pmemCapacity() / FREE_SHARE) {
                return;
            }
            List<Candidate> some = new ArrayList<>();
            next = find(next, some, false);
            promotedBytes.addAndGet(move(some, false));
        }
    }

    /// Nothing moves from now on.
    void stop() {
        Thread running;
        synchronized (this) {
            stopping = true;
            running = promoter;
            notifyAll();
        }
        boolean interrupted = false;
        while (running != null && running.isAlive()) {
            try {
                running.join();
            } catch (InterruptedException e) {
                interrupted = true;
            }
        }
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
    }
}
