package dev.terrace.objects;

import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Compaction;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.RemoteCompaction;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.List;

/// Moves values closer together: out of chunks of which little is in use, out of the ends of disks,
/// which are then given back, and out of segments that are mostly free.
///
/// Objects, nodes and links do not move, so chunks with such records stay as they are. Each plan
/// needs two passes over all slots: one counts the values that can move, the other moves them.
/// Other threads read and write meanwhile, and values that they change are left alone. An
/// interrupted compaction leaves a sound pool, and the next compaction finds less to do.
final class Compactor {
    private final Pool pool;
    private final Store store;
    private final Buffers buffers;
    private final Migrator migrator;

    Compactor(Pool pool) {
        this.pool = pool;
        store = pool.store();
        buffers = pool.buffers();
        migrator = new Migrator(pool);
    }

    /// Compacts the pool; one compaction runs at a time. Outside of transactions, because it needs
    /// many.
    synchronized CompactionReport run() {
        MoveEvent event = MoveEvent.begun(pool.name(), "compaction");
        CompactionReport near = compactNear();
        RemoteCompaction.Result remote = store.remote().compact();
        event.end(near.bytesMoved() + remote.bytes());
        return new CompactionReport(
                near.valuesMoved() + remote.values(),
                near.bytesMoved() + remote.bytes(),
                near.chunksFreed(),
                near.bytesGivenBack() + remote.bytesGivenBack());
    }

    /// Compacts persistent memory and disks.
    private CompactionReport compactNear() {
        try (Compaction compaction = store.compaction()) {
            long freeBefore = compaction.freeChunks();
            compaction.releaseEmpty();
            count(compaction);
            compaction.planSparse();
            Migrator.Step sparse = move(compaction);
            compaction.releaseEmpty();
            count(compaction);
            compaction.planTails();
            Migrator.Step tails = move(compaction);
            compaction.countAnew();
            long freed = compaction.releaseEmpty() - freeBefore;
            return new CompactionReport(
                    sparse.values() + tails.values(),
                    sparse.bytes() + tails.bytes(),
                    Math.max(0, freed),
                    compaction.giveBack());
        }
    }

    private void count(Compaction compaction) {
        compaction.countAnew();
        lookAtAll(
                new Migrator.Goal() {
                    @Override
                    public boolean wants(Buffers.Place place, List<Medium> tiers) {
                        compaction.count(place);
                        return false;
                    }

                    @Override
                    public long put(Buffers.Place place, List<Medium> tiers, byte[] bytes) {
                        throw new AssertionError("nothing moves that is only counted");
                    }
                });
    }

    private Migrator.Step move(Compaction compaction) {
        Migrator.Goal goal =
                new Migrator.Goal() {
                    @Override
                    public boolean wants(Buffers.Place place, List<Medium> tiers) {
                        return compaction.wants(place);
                    }

                    @Override
                    public long put(Buffers.Place place, List<Medium> tiers, byte[] bytes) {
                        if (!compaction.wants(place)) {
                            throw new StoreFailure.Full(
                                    pool.name() + " is compacted no more: somebody needs the room");
                        }
                        return buffers.putBeside(place, bytes);
                    }
                };
        return compaction.isPlanned() ? lookAtAll(goal) : new Migrator.Step(-1, 0, 0);
    }

    private Migrator.Step lookAtAll(Migrator.Goal goal) {
        Migrator.Step own = migrator.stepOfPool(goal);
        Migrator.Step records = migrator.run(goal);
        return new Migrator.Step(
                -1, own.values() + records.values(), own.bytes() + records.bytes());
    }
}
