package dev.terrace.objects.internal.store;

/// What values and records take of each medium, in bytes, with all that is around them.
public final class ValueSize {
    /// The smallest record.
    public static final int RECORD_MIN = SizeClasses.SLOT_BYTES_MIN;

    /// Bytes of persistent memory for the record of a value on the remote tier.
    public static final long REMOTE_RECORD = allocated(Remote.RECORD_BYTES);

    private ValueSize() {}

    /// Whether a value of so many bytes lies in its slot, for any tags.
    public static boolean isInSlot(double bytes) {
        return bytes <= Buffers.INLINE_BYTES_MAX;
    }

    /// Bytes of such a value in persistent memory, outside of the record, in a pool without
    /// checksums there; checksums take eight bytes more.
    public static long inPmem(long bytes) {
        return isInSlot(bytes) ? 0 : allocated(Buffers.PMEM_FRONT_BYTES + bytes);
    }

    /// Bytes of such a value on a disk.
    public static long onDisk(long bytes) {
        return isInSlot(bytes) ? 0 : allocated(CheckedFront.BYTES + bytes);
    }

    /// Bytes of such a value on the remote tier.
    public static long onRemote(long bytes) {
        return isInSlot(bytes) ? 0 : Segment.FRONT_BYTES + bytes;
    }

    /// Bytes of the slot, or the chunks, that so many need in persistent memory.
    public static long allocated(long bytes) {
        int sizeClass = SizeClasses.of(bytes);
        return sizeClass >= 0
                ? SizeClasses.slotBytes(sizeClass)
                : Math.ceilDiv(bytes, (long) SizeClasses.CHUNK_BYTES) * SizeClasses.CHUNK_BYTES;
    }
}
