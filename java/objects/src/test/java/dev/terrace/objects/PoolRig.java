package dev.terrace.objects;

import dev.terrace.objects.store.CrashStates;
import dev.terrace.objects.store.RecordingRegion;
import dev.terrace.objects.store.Region;
import dev.terrace.objects.store.Store;
import dev.terrace.objects.store.Superblock;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.Consumer;

/// Pools in memory whose stores are recorded: what is done to one, and all that a power cut may leave of it.
public final class PoolRig implements AutoCloseable {
    private static final int EXTENT_SHIFT = 20;
    private static final int EXTENTS_MAX = 4;
    private static final int COMBINATIONS_MAX = 1 << 12;
    private static final int SAMPLE = 60;
    /// Of states that are only the beginning.
    private static final int COMBINATIONS_FIRST_MAX = 1 << 6;
    private static final int SAMPLE_FIRST = 16;

    private final Arena arena = Arena.ofShared();
    private final List<RecordingRegion.Event> events = new ArrayList<>();
    private final RecordingRegion pmem;
    private final RecordingRegion disk;
    private final Superblock superblock;
    private final Pool pool;
    private Map<RecordingRegion, List<byte[]>> base = Map.of();

    /// An empty pool.
    public PoolRig() {
        superblock = new Superblock(new UUID(1, 2), 0x5eed, EXTENT_SHIFT, 1 << 16);
        pmem = new RecordingRegion("pmem", EXTENT_SHIFT, EXTENTS_MAX, arena, events);
        disk = new RecordingRegion("disk", EXTENT_SHIFT, EXTENTS_MAX, arena, events);
        Store.format(superblock, pmem);
        pool = pool(superblock, pmem, disk, false);
    }

    /// A pool that is opened after a power cut, from its first store on.
    private PoolRig(Superblock superblock, List<byte[]> pmemImage, List<byte[]> diskImage) {
        this.superblock = superblock;
        pmem = new RecordingRegion("pmem", EXTENT_SHIFT, EXTENTS_MAX, arena, events, pmemImage);
        disk = new RecordingRegion("disk", EXTENT_SHIFT, EXTENTS_MAX, arena, events, diskImage);
        begin();
        pool = pool(superblock, pmem, disk, false);
    }

    private static Pool pool(Superblock superblock, Region pmem, Region disk, boolean readOnly) {
        Store.finishCommit(superblock, pmem, readOnly);
        return Pool.on(new Store(superblock, pmem, List.of(new Store.TierRegion(StorageTier.SSD, disk)), readOnly));
    }

    /// The pool.
    public Pool pool() {
        return pool;
    }

    /// From now on what happens is looked at.
    public void begin() {
        events.clear();
        base = new LinkedHashMap<>();
        base.put(pmem, pmem.image());
        base.put(disk, disk.image());
    }

    /// What is done after each commit.
    public void onCommit(Runnable action) {
        pmem.onCommit(action);
    }

    /// How many events there were since [#begin()].
    public int happened() {
        return events.size();
    }

    /// Has `look` look at a pool as it is opened after a power cut, for each state that one might leave.
    ///
    /// @param readOnly whether it is opened only to be read
    /// @return how many states there were
    public int forEachCrash(boolean readOnly, Crash look) {
        return forEachCrash(events, readOnly, look);
    }

    /// What happened since [#begin()].
    public List<RecordingRegion.Event> events() {
        return List.copyOf(events);
    }

    /// As [#forEachCrash(boolean, Crash)], if this had happened.
    public int forEachCrash(List<RecordingRegion.Event> instead, boolean readOnly, Crash look) {
        return new CrashStates(List.copyOf(instead), base, COMBINATIONS_MAX, SAMPLE).forEach((happened, images) -> {
            try (Arena mine = Arena.ofConfined()) {
                List<RecordingRegion.Event> more = new ArrayList<>();
                Region p = new RecordingRegion("pmem", EXTENT_SHIFT, EXTENTS_MAX, mine, more, images.get(pmem));
                Region d = new RecordingRegion("disk", EXTENT_SHIFT, EXTENTS_MAX, mine, more, images.get(disk));
                look.at(happened, pool(superblock, p, d, readOnly));
            }
        });
    }

    /// As [#forEachCrash(boolean, Crash)], after a second power cut while the first was recovered from.
    public int forEachCrashOfRecovery(Crash look) {
        int[] states = {0};
        new CrashStates(List.copyOf(events), base, COMBINATIONS_FIRST_MAX, SAMPLE_FIRST).forEach((happened, images) -> {
            try (PoolRig second = new PoolRig(superblock, images.get(pmem), images.get(disk))) {
                states[0] += second.forEachCrash(false, (_, found) -> look.at(happened, found));
            }
        });
        return states[0];
    }

    /// What is done with a state.
    public interface Crash {
        /// Looks at a pool as a power cut after some events has left it.
        void at(int happened, Pool found);
    }

    /// Does something to the pool of a new rig.
    public static PoolRig of(Consumer<Pool> prepare) {
        PoolRig rig = new PoolRig();
        prepare.accept(rig.pool);
        return rig;
    }

    @Override
    public void close() {
        arena.close();
    }
}
