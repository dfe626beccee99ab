package dev.terrace.objects.internal.store;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFullException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/// The bytes of one tier, in extents of one size that is a power of two. Every store of a pool goes
/// through here, so that tests can tell what a power cut would leave.
///
/// Offsets count from the first extent's begin; nothing lies across the border of two extents.
///
/// Invariant: an extent is there, filled with zeros, durably, before anything is mapped or stored
/// in it: a sparse file on a disk that is full ends the process at the first store.
public abstract class Region implements AutoCloseable {
    /// Words.
    public static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);

    /// Bytes.
    public static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

    private static final VarHandle WORDS = LONG.varHandle();

    private final int extentShift;
    private final long withinMask;

    /// Not volatile: who reads an old one looks again, in [#appended]; and what is in a new one was
    /// stored before it was.
    private MemorySegment[] extents = {};

    /// A region without extents.
    protected Region(int extentShift) {
        this.extentShift = extentShift;
        withinMask = (1L << extentShift) - 1;
    }

    /// What messages call it.
    public abstract String name();

    /// Appends an extent of zeros, durably.
    ///
    /// @throws PoolFullException if the device, or the limit that was set, has no room for it:
    ///   nothing has changed then
    public abstract void grow();

    /// Gives back all but the first `count` extents, to which nothing leads any more: also those
    /// that were appended and never used. Who has read where something lay there before that was so
    /// may still look: that is an [InternalError], or a [PoolDamagedException].
    ///
    /// @return how many bytes
    public abstract long shrink(int count);

    /// By how many bytes it may become longer, as far as a limit that was set says.
    public abstract long bytesToGrow();

    /// What was stored in this range is to be durable after the next [#fence()].
    public abstract void flush(long offset, long length);

    /// What was flushed is durable when this returns.
    public abstract void fence();

    @Override
    public abstract void close();

    /// Bytes of an extent.
    public final long extentBytes() {
        return withinMask + 1;
    }

    /// How many extents there are.
    public final int extents() {
        return extents.length;
    }

    /// The extent with this index.
    public final MemorySegment extent(int index) {
        return extents[index];
    }

    /// The extent that an offset lies in.
    ///
    /// @throws PoolDamagedException if there is none: what has led here is damaged
    public final MemorySegment extentOf(long offset) {
        MemorySegment[] known = extents;
        long index = offset >>> extentShift;
        return index < known.length ? known[(int) index] : appended(index);
    }

    private MemorySegment appended(long index) {
        VarHandle.acquireFence();
        if (index >= extents.length && !follow(index)) {
            throw new PoolDamagedException(
                    name() + ": something leads to extent " + index + ", which is not there");
        }
        return extents[(int) index];
    }

    /// Whether an offset lies in an extent that is there.
    public final boolean contains(long offset) {
        return offset >= 0
                && (offset >>> extentShift < extents.length || follow(offset >>> extentShift));
    }

    /// Looks whether somebody else has appended the extent with this index.
    protected boolean follow(long index) {
        return false;
    }

    /// An offset within its extent.
    public final long within(long offset) {
        return offset & withinMask;
    }

    /// A word; its offset is a multiple of 8.
    ///
    /// @throws PoolDamagedException if it is not, or there is none
    public final long getLong(long offset) {
        try {
            return extentOf(offset).get(LONG, within(offset));
        } catch (IllegalArgumentException misaligned) {
            throw new PoolDamagedException(
                    name() + ": something leads to offset " + offset + ", where no word is");
        }
    }

    /// A word, and all that was stored before it was.
    public final long getLongAcquire(long offset) {
        return (long) WORDS.getAcquire(extentOf(offset), within(offset));
    }

    /// Stores a word, which others see only with all that was stored before.
    public void putLong(long offset, long value) {
        WORDS.setRelease(extentOf(offset), within(offset), value);
    }

    /// Stores bytes.
    public void put(long offset, MemorySegment source, long from, long length) {
        MemorySegment.copy(source, from, extentOf(offset), within(offset), length);
    }

    /// Stores zeros.
    public void zero(long offset, long length) {
        extentOf(offset).asSlice(within(offset), length).fill((byte) 0);
    }

    /// Reads bytes.
    public final void get(long offset, MemorySegment into, long at, long length) {
        MemorySegment.copy(extentOf(offset), within(offset), into, at, length);
    }

    /// Only the first extents are there from now on.
    protected final void keep(int count) {
        extents = Arrays.copyOf(extents, Math.min(count, extents.length));
    }

    /// An extent has come.
    protected final void append(MemorySegment extent) {
        MemorySegment[] more = Arrays.copyOf(extents, extents.length + 1);
        more[extents.length] = extent;
        VarHandle.releaseFence();
        extents = more;
    }
}
