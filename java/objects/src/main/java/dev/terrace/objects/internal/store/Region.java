package dev.terrace.objects.internal.store;

import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.VarHandle;
import java.nio.ByteOrder;
import java.util.Arrays;

/// The bytes of one tier, in extents of equal size, a power of two. Every store of a pool goes
/// through a region, so that tests can compute the states that a power cut may leave.
///
/// Offsets count from the beginning of the first extent; no value crosses the border of two
/// extents.
///
/// Invariant: an extent exists durably and is filled with zeros before it is mapped: with a sparse
/// file on a full disk, the first store would end the process.
public abstract class Region implements AutoCloseable {
    /// Words.
    public static final ValueLayout.OfLong LONG =
            ValueLayout.JAVA_LONG.withOrder(ByteOrder.LITTLE_ENDIAN);

    /// Bytes.
    public static final ValueLayout.OfByte BYTE = ValueLayout.JAVA_BYTE;

    private static final VarHandle WORDS = LONG.varHandle();

    private final int extentShift;
    private final long withinMask;

    /// Not volatile: a thread that reads an old array looks again, in [#appended], and the contents
    /// of a new array were stored before the array.
    private MemorySegment[] extents = {};

    /// A region without extents.
    protected Region(int extentShift) {
        this.extentShift = extentShift;
        withinMask = (1L << extentShift) - 1;
    }

    /// The name of the region in messages.
    public abstract String name();

    /// Appends an extent of zeros, durably.
    ///
    /// @throws StoreFailure.Full if the device or the limit has no room for it; nothing has changed
    ///   then
    public abstract void grow();

    /// Gives back all extents but the first `count`. No reference leads to them any more; some may
    /// never have been used. A thread with an old reference may still read them, and gets an
    /// [InternalError] or a [StoreFailure.Damaged].
    ///
    /// @return how many bytes
    public abstract long shrink(int count);

    /// The number of bytes by which the region may grow, by its limit.
    public abstract long bytesToGrow();

    /// The thread that writes is about to begin a transaction, or a commit of a single word.
    public void beforeChanges() {}

    /// A commit has happened, and `sequence` says so.
    public void committed() {}

    /// Flushes stores in this range: they are durable after the next [#fence()].
    public abstract void flush(long offset, long length);

    /// Makes all flushed stores durable before it returns.
    public abstract void fence();

    @Override
    public abstract void close();

    /// Bytes of an extent.
    public final long extentBytes() {
        return withinMask + 1;
    }

    /// The number of extents.
    public final int extents() {
        return extents.length;
    }

    /// The extent with this index.
    public final MemorySegment extent(int index) {
        return extents[index];
    }

    /// The extent of an offset.
    ///
    /// @throws StoreFailure.Damaged if there is none: the reference is damaged
    public final MemorySegment extentOf(long offset) {
        MemorySegment[] known = extents;
        long index = offset >>> extentShift;
        return index < known.length ? known[(int) index] : appended(index);
    }

    private MemorySegment appended(long index) {
        VarHandle.acquireFence();
        if (index >= extents.length && !follow(index)) {
            throw new StoreFailure.Damaged(
                    name() + ": something leads to extent " + index + ", which is not there");
        }
        return extents[(int) index];
    }

    /// Whether an offset lies in an existing extent.
    public final boolean contains(long offset) {
        return offset >= 0
                && (offset >>> extentShift < extents.length || follow(offset >>> extentShift));
    }

    /// Checks whether another process has appended the extent with this index.
    protected boolean follow(long index) {
        return false;
    }

    /// An offset within its extent.
    public final long within(long offset) {
        return offset & withinMask;
    }

    /// Reads a word; its offset is a multiple of 8.
    ///
    /// @throws StoreFailure.Damaged if it is not, or if there is no such word
    public final long getLong(long offset) {
        try {
            return extentOf(offset).get(LONG, within(offset));
        } catch (IllegalArgumentException misaligned) {
            throw new StoreFailure.Damaged(
                    name() + ": something leads to offset " + offset + ", where no word is");
        }
    }

    /// Reads a word with acquire semantics: all stores before the word's store are visible, too.
    public final long getLongAcquire(long offset) {
        return (long) WORDS.getAcquire(extentOf(offset), within(offset));
    }

    /// Stores a word with release semantics: a thread that sees it also sees all stores before it.
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

    /// Copies bytes of a file that another process may cut off meanwhile. A look at its mapping
    /// would be an [InternalError], and maybe only later.
    ///
    /// @return whether they are there
    /// @throws IOException if the file cannot be read
    public boolean copy(long offset, byte[] into) throws IOException {
        get(offset, MemorySegment.ofArray(into), 0, into.length);
        return true;
    }

    /// Removes all extents but the first ones.
    protected final void keep(int count) {
        extents = Arrays.copyOf(extents, Math.min(count, extents.length));
    }

    /// Adds an extent.
    protected final void append(MemorySegment extent) {
        MemorySegment[] more = Arrays.copyOf(extents, extents.length + 1);
        more[extents.length] = extent;
        VarHandle.releaseFence();
        extents = more;
    }
}
