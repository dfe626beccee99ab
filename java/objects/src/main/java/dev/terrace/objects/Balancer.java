package dev.terrace.objects;

import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/// Moves values of fields and collections with several tags: away from persistent memory when a
/// value that must lie there needs the room, and back when there is room again.
///
/// Moves are transactions of at most 64 values or 4 MiB: a value is durable in its new place before
/// the slot leads there. Values return in the background, as long as an eighth of persistent memory
/// is free, so that they need not leave again at once.
final class Balancer {
    private static final int DEMOTED_SHARE = 16;
    private static final int FREE_SHARE = 8;

    private final Store store;
    private final Buffers buffers;
    private final AtomicLong promotedBytes = new AtomicLong();
    private final AtomicLong demotedBytes = new AtomicLong();

    /// The offset where the next search for values to demote begins. Guarded by the writer's lock.
    private long hand;

    private @Nullable Thread promoter;

    /// Whether some value does not lie on its best tier. Otherwise freed space wakes no thread.
    private volatile boolean spilled;

    private boolean wanted;
    private boolean stopping;

    private final Migrator migrator;
    private final Migrator.Goal down = new Down();
    private final Migrator.Goal up = new Up();

    /// Moves values away from persistent memory.
    private final class Down implements Migrator.Goal {
        @Override
        public boolean wants(Buffers.Place place, List<Medium> tiers) {
            return place.disk() < 0
                    && isMovable(tiers)
                    && others(tiers).stream().anyMatch(buffers::isThere);
        }

        @Override
        public long put(Buffers.Place place, List<Medium> tiers, byte[] bytes) {
            return buffers.put(others(tiers), bytes);
        }
    }

    /// Moves values back to persistent memory.
    private final class Up implements Migrator.Goal {
        @Override
        public boolean wants(Buffers.Place place, List<Medium> tiers) {
            return place.disk() >= 0 && isMovable(tiers);
        }

        @Override
        public long put(Buffers.Place place, List<Medium> tiers, byte[] bytes) {
            return buffers.put(tiers.subList(0, 1), bytes);
        }
    }

    private static boolean isMovable(List<Medium> tiers) {
        return tiers.size() > 1 && tiers.getFirst() == Medium.PMEM;
    }

    private static List<Medium> others(List<Medium> tiers) {
        return tiers.subList(1, tiers.size());
    }

    Balancer(Pool pool) {
        store = pool.store();
        buffers = pool.buffers();
        migrator = new Migrator(pool);
        buffers.onSpillAndFree(this::spill, this::freed);
    }

    /// Bytes of values that have returned to persistent memory since the pool was opened.
    long promotedBytes() {
        return promotedBytes.get();
    }

    /// Bytes of values that had to leave persistent memory.
    long demotedBytes() {
        return demotedBytes.get();
    }

    /// Makes room in persistent memory, at most a sixteenth of it. Called outside of transactions.
    ///
    /// @return whether there was anything to move away
    boolean makeRoom() {
        long wantedBytes =
                Math.max(1, store.pmem().extents() * store.pmem().extentBytes() / DEMOTED_SHARE);
        return store.alone(() -> {
            store.remote().releaseReserve();
            MoveEvent event = MoveEvent.begun(store.pmem().name(), "demotion");
            long moved = 0;
            boolean wrapped = false;
            while (moved < wantedBytes) {
                Migrator.Step step;
                try {
                    step = migrator.step(hand, down);
                } catch (StoreFailure.Unavailable notNow) {
                    // Without the reserve, no value could move to the remote tier once it can be
                    // reached again.
                    store.remote().keepReserve();
                    break;
                }
                hand = step.next();
                moved += step.bytes();
                // The first free room lets the disk grow, so that more values can move to it.
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
            event.end(moved);
            if (moved > 0) {
                spill();
            }
            return moved > 0;
        });
    }

    private void spill() {
        spilled = true;
    }

    /// Once the transaction has committed, there will be room for values that were moved away.
    private void freed() {
        if (spilled) {
            store.afterCommit(this::wakePromoter);
        }
    }

    private synchronized void wakePromoter() {
        if (!wanted && !stopping) {
            wanted = true;
            if (promoter == null) {
                promoter =
                        Thread.ofPlatform().daemon().name("terrace-promoter").start(this::promote);
            }
            notifyAll();
        }
    }

    private void promote() {
        while (awaitWork()) {
            try {
                promoteAll();
            } catch (StoreFailure.Unavailable | StoreFailure.Busy notNow) {
                // The next freed value wakes this thread again.
                continue;
            } catch (StoreFailure e) {
                // The pool is closed, or has failed: its next use reports that.
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

    private boolean hasRoom() {
        return store.usage().roomInPmem() >= store.usage().pmemCapacity() / FREE_SHARE;
    }

    /// Goes once over all records, as long as there is room.
    void promoteAll() {
        MoveEvent event = MoveEvent.begun(store.pmem().name(), "promotion");
        long moved = 0;
        for (long next = 0; next >= 0 && !isStopping() && hasRoom(); ) {
            Migrator.Step step = migrator.step(next, up);
            next = step.next();
            promotedBytes.addAndGet(step.bytes());
            moved += step.bytes();
        }
        event.end(moved);
    }

    /// Ends all moves.
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
