package dev.terrace.objects.internal.store;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/// The durable bytes of a region, and memory in which a pool is opened over them.
///
/// Between two states the memory equals the bytes: what a state's pool stored is undone by the
/// events that its region noted. Fresh memory for each state would cost more than all that is
/// looked at. So a store that no event tells of, which [CrashStates] could not see either, is found
/// by [#check()].
final class CrashImage {
    static final int LINE_BYTES = 64;

    private final RecordingRegion region;
    private final Arena arena = Arena.ofAuto();
    private final List<byte[]> bytes = new ArrayList<>();
    private final List<MemorySegment> memory = new ArrayList<>();

    CrashImage(RecordingRegion region, List<byte[]> image) {
        this.region = region;
        image.forEach(extent -> add(extent.clone()));
    }

    private void add(byte[] extent) {
        MemorySegment copy = arena.allocate(extent.length, Long.BYTES);
        MemorySegment.copy(extent, 0, copy, ValueLayout.JAVA_BYTE, 0, extent.length);
        bytes.add(extent);
        memory.add(copy);
    }

    void grow() {
        add(new byte[(int) region.extentBytes()]);
    }

    void shrink(int extents) {
        bytes.subList(extents, bytes.size()).clear();
        memory.subList(extents, memory.size()).clear();
    }

    byte[] line(long offset) {
        int at = (int) region.within(offset);
        return Arrays.copyOfRange(bytes.get(extent(offset)), at, at + LINE_BYTES);
    }

    void putLine(long offset, byte[] line) {
        System.arraycopy(
                line, 0, bytes.get(extent(offset)), (int) region.within(offset), LINE_BYTES);
        reset(offset, LINE_BYTES);
    }

    /// A region over the memory, which notes what happens to it in `events`.
    ///
    /// @param arena of extents that it grows by
    RecordingRegion open(Arena arena, List<RecordingRegion.Event> events) {
        return region.over(memory, arena, events);
    }

    /// Undoes what `opened` noted.
    void undo(RecordingRegion opened, List<RecordingRegion.Event> events) {
        for (RecordingRegion.Event event : events) {
            if (event instanceof RecordingRegion.Event.Stored(var stored, long offset, byte[] put)
                    && stored == opened
                    && extent(offset) < bytes.size()) {
                reset(offset, put.length);
            }
        }
    }

    /// Throws if the memory does not equal the bytes.
    void check() {
        for (int i = 0; i < bytes.size(); i++) {
            long differs = memory.get(i).mismatch(MemorySegment.ofArray(bytes.get(i)));
            if (differs >= 0) {
                throw new AssertionError(
                        "a store to "
                                + region.name()
                                + " at "
                                + differs
                                + " of extent "
                                + i
                                + " was not noted");
            }
        }
    }

    private int extent(long offset) {
        return (int) (offset / region.extentBytes());
    }

    private void reset(long offset, int length) {
        int extent = extent(offset);
        int at = (int) region.within(offset);
        MemorySegment.copy(
                bytes.get(extent), at, memory.get(extent), ValueLayout.JAVA_BYTE, at, length);
    }
}
