package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.terrace.objects.internal.store.CrashStates;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.RecordingRegion;
import dev.terrace.objects.internal.store.RecordingSegmentStore;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.Superblock;
import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/// Pools in memory whose stores are recorded: what is done to one, and all that a power cut may
/// leave of it.
public final class PoolRig implements AutoCloseable {
    private static final int EXTENT_SHIFT = 20;
    private static final int EXTENTS_MAX = 4;
    private static final int COMBINATIONS_MAX = 1 << 12;
    private static final int SAMPLE = 60;

    /// Of states that are only the beginning.
    private static final int COMBINATIONS_FIRST_MAX = 1 << 6;

    private static final int SAMPLE_FIRST = 16;

    private final Arena arena = Arena.ofShared();
    private final List<RecordingRegion.Event> events;
    private final RecordingRegion pmem;
    private final RecordingRegion disk;
    private final @Nullable RecordingSegmentStore segments;
    private final Superblock superblock;
    private final Pool pool;
    private Map<RecordingRegion, List<byte[]>> base = Map.of();
    private Map<String, byte[]> baseSegments = Map.of();

    /// An empty pool.
    public PoolRig() {
        this(false);
    }

    /// An empty pool, with a remote tier or without.
    public PoolRig(boolean hasRemote) {
        events = new ArrayList<>();
        segments = hasRemote ? new RecordingSegmentStore(events) : null;
        superblock = new Superblock(new UUID(1, 2), 0x5eed, EXTENT_SHIFT, 1 << 16);
        pmem = new RecordingRegion("pmem", EXTENT_SHIFT, EXTENTS_MAX, arena, events);
        disk = new RecordingRegion("disk", EXTENT_SHIFT, EXTENTS_MAX, arena, events);
        superblock.format(pmem);
        pool = pool(superblock, pmem, disk, segments, false);
    }

    /// A pool that is opened after a power cut of `first`, from its first store on.
    private PoolRig(PoolRig first, CrashStates.State state) {
        superblock = first.superblock;
        events = state.events();
        pmem = Objects.requireNonNull(state.regions().get(first.pmem));
        disk = Objects.requireNonNull(state.regions().get(first.disk));
        segments = first.segmentsLeft(state);
        begin();
        pool = pool(superblock, pmem, disk, segments, false);
    }

    private @Nullable RecordingSegmentStore segmentsLeft(CrashStates.State state) {
        return segments == null
                ? null
                : new RecordingSegmentStore(state.events(), state.segments());
    }

    private static Pool pool(
            Superblock superblock,
            Region pmem,
            Region disk,
            @Nullable SegmentStore segments,
            boolean readOnly) {
        return Failures.telling(() -> {
            Store.finishCommit(superblock, pmem, readOnly);
            Store.RemoteTier remote =
                    segments == null
                            ? null
                            : new Store.RemoteTier(new ProgramSegments(segments), Long.MAX_VALUE);
            return Pool.on(
                    new Store(
                            superblock,
                            pmem,
                            List.of(new Store.TierRegion(Medium.SSD, disk)),
                            remote,
                            readOnly));
        });
    }

    /// The segments of its remote tier.
    public RecordingSegmentStore segments() {
        return Objects.requireNonNull(segments);
    }

    /// The pool.
    public Pool pool() {
        return pool;
    }

    /// Another pool over the same memory, opened only to be read.
    public Pool reader() {
        return pool(superblock, pmem, disk, segments, true);
    }

    /// What is done after each store.
    public void onStore(Runnable action) {
        pmem.onStore(action);
        disk.onStore(action);
    }

    /// From now on what happens is looked at.
    public void begin() {
        events.clear();
        base = new LinkedHashMap<>();
        base.put(pmem, pmem.image());
        base.put(disk, disk.image());
        baseSegments = segments == null ? Map.of() : Map.copyOf(segments.segments());
    }

    /// What is done after each commit.
    public void onCommit(Runnable action) {
        pmem.onCommit(action);
    }

    /// How many events there were since [#begin()].
    public int happened() {
        return events.size();
    }

    /// Has `look` look at a pool as it is opened after a power cut, for each state that one might
    /// leave.
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
        var states =
                new CrashStates(List.copyOf(instead), base, baseSegments, COMBINATIONS_MAX, SAMPLE);
        return states.forEach(state -> {
            Region p = Objects.requireNonNull(state.regions().get(pmem));
            Region d = Objects.requireNonNull(state.regions().get(disk));
            RecordingSegmentStore s = segmentsLeft(state);
            Pool found = pool(superblock, p, d, s, readOnly);
            look.at(state.happened(), found);
            if (s != null && !readOnly) {
                expectNoOrphans(found, s);
            }
        });
    }

    /// Throws if there are segments that the pool does not know, also after another has come.
    private static void expectNoOrphans(Pool pool, RecordingSegmentStore segments) {
        pool.create(Thing.on(StorageTier.REMOTE)).setBytes(new byte[100]);
        long known = pool.statistics().capacity().getLast();
        long there =
                segments.segments().entrySet().stream()
                        .filter(segment -> !segment.getKey().endsWith("-0000000000000000.segment"))
                        .mapToLong(segment -> segment.getValue().length)
                        .sum();
        assertEquals(known, there, () -> "bytes of segments: " + segments.segments().keySet());
    }

    /// As [#forEachCrash(boolean, Crash)], after a second power cut while the first was recovered
    /// from.
    public int forEachCrashOfRecovery(Crash look) {
        int[] states = {0};
        var first =
                new CrashStates(
                        List.copyOf(events),
                        base,
                        baseSegments,
                        COMBINATIONS_FIRST_MAX,
                        SAMPLE_FIRST);
        first.forEach(state -> {
            try (PoolRig second = new PoolRig(this, state)) {
                states[0] +=
                        second.forEachCrash(false, (_, found) -> look.at(state.happened(), found));
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
        return of(false, prepare);
    }

    /// The same, with a remote tier or without.
    public static PoolRig of(boolean hasRemote, Consumer<Pool> prepare) {
        PoolRig rig = new PoolRig(hasRemote);
        prepare.accept(rig.pool);
        return rig;
    }

    @Override
    public void close() {
        arena.close();
    }
}
