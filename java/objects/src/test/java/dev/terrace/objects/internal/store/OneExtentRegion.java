package dev.terrace.objects.internal.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;

/// A region of one extent in memory, in which nothing is lost: for tests that do something else at
/// some of its calls.
class OneExtentRegion extends Region {
    private final String name;
    private final Arena arena;
    private final int shift;

    OneExtentRegion(String name, int shift, Arena arena) {
        super(shift);
        this.name = name;
        this.shift = shift;
        this.arena = arena;
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public void grow() {
        append(arena.allocate(1L << shift, Long.BYTES));
    }

    @Override
    public long shrink(int count) {
        throw new AssertionError("nothing is given back here");
    }

    @Override
    public long bytesToGrow() {
        return 0;
    }

    @Override
    public void flush(long offset, long length) {
        assertTrue(contains(offset) && length > 0);
    }

    @Override
    public void fence() {
        assertEquals(1, extents());
    }

    @Override
    public void close() {
        assertEquals(1, extents());
    }
}
