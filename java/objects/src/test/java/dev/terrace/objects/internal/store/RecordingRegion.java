package dev.terrace.objects.internal.store;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/// A region in memory that notes every store, flush and fence, so that [CrashStates] can tell what
/// a power cut would leave.
public final class RecordingRegion extends Region {
    private final String name;
    private final Arena arena;
    private final int extentShift;
    private final int extentsMax;
    private final List<Event> events;
    private Runnable onStore = () -> {};
    private Runnable onCommit = () -> {};

    /// What happened to a region, or to a store of segments.
    public sealed interface Event {
        /// Bytes were stored.
        record Stored(RecordingRegion region, long offset, byte[] bytes) implements Event {}

        /// A range is to be durable at the next fence.
        record Flushed(RecordingRegion region, long offset, long length) implements Event {}

        /// What was flushed is durable.
        record Fenced(RecordingRegion region) implements Event {}

        /// An extent of zeros has come, durably.
        record Grown(RecordingRegion region) implements Event {}

        /// Only so many extents are left, but not durably.
        record Shrunk(RecordingRegion region, int extents) implements Event {}

        /// A segment is being written.
        record SegmentBegun(String name, byte[] bytes) implements Event {}

        /// A segment that was being written is durable.
        record SegmentDurable(String name) implements Event {}

        /// A segment was deleted.
        record SegmentDeleted(String name) implements Event {}
    }

    /// An empty region; what happens to it is added to `events`.
    public RecordingRegion(
            String name, int extentShift, int extentsMax, Arena arena, List<Event> events) {
        super(extentShift);
        this.name = name;
        this.arena = arena;
        this.extentShift = extentShift;
        this.extentsMax = extentsMax;
        this.events = events;
    }

    /// A region like this one over other memory, which grows by memory of `arena`.
    RecordingRegion over(List<MemorySegment> memory, Arena arena, List<Event> events) {
        var other = new RecordingRegion(name, extentShift, extentsMax, arena, events);
        memory.forEach(other::append);
        return other;
    }

    /// Its bytes now.
    public List<byte[]> image() {
        List<byte[]> image = new ArrayList<>();
        for (int i = 0; i < extents(); i++) {
            image.add(extent(i).toArray(BYTE));
        }
        return image;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public void grow() {
        if (extents() == extentsMax) {
            throw new StoreFailure.Full(name + " may have no more than " + extentsMax + " extents");
        }
        append(arena.allocate(extentBytes(), 8));
        events.add(new Event.Grown(this));
    }

    @Override
    public long shrink(int count) {
        long gone = Math.max(0, extents() - count) * extentBytes();
        if (gone > 0) {
            keep(count);
            events.add(new Event.Shrunk(this, count));
        }
        return gone;
    }

    @Override
    public long bytesToGrow() {
        return (extentsMax - extents()) * extentBytes();
    }

    @Override
    public void putLong(long offset, long value) {
        super.putLong(offset, value);
        note(offset, Long.BYTES);
        if (offset == Superblock.SEQUENCE_AT && (value & 1) == 0) {
            onCommit.run();
        }
    }

    /// What is done after each store.
    public void onStore(Runnable action) {
        onStore = action;
    }

    /// What is done after each commit.
    public void onCommit(Runnable action) {
        onCommit = action;
    }

    @Override
    public void put(long offset, MemorySegment source, long from, long length) {
        super.put(offset, source, from, length);
        note(offset, length);
    }

    @Override
    public void zero(long offset, long length) {
        super.zero(offset, length);
        note(offset, length);
    }

    private void note(long offset, long length) {
        byte[] bytes = extentOf(offset).asSlice(within(offset), length).toArray(BYTE);
        events.add(new Event.Stored(this, offset, bytes));
        onStore.run();
    }

    @Override
    public void flush(long offset, long length) {
        events.add(new Event.Flushed(this, offset, length));
    }

    @Override
    public void fence() {
        events.add(new Event.Fenced(this));
    }

    @Override
    public void close() {}
}
