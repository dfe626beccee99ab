package dev.terrace.objects.internal.store;

import dev.terrace.objects.FieldSpec;
import java.util.List;

/// What things take of each tier, in bytes, with all that is around them: for who plans where
/// values are to lie.
public final class StoredSize {
    /// What the record of a value on the remote tier takes of persistent memory.
    public static final long REMOTE_RECORD = allocated(Remote.RECORD_BYTES);

    private StoredSize() {}

    /// An object's record in persistent memory, laid out for these fields.
    public static long record(List<FieldSpec> fields) {
        return allocated(Layout.of(fields).bytes());
    }

    /// What a field has of the record: its value, or the slot that leads to it, or nothing.
    public static int inRecord(FieldSpec field) {
        return field.isVolatile() ? 0 : Layout.width(field);
    }

    /// Whether a value of so many bytes lies in its slot, whatever its tags say.
    public static boolean isInSlot(double bytes) {
        return bytes <= Buffers.INLINE_BYTES_MAX;
    }

    /// A value of so many bytes in persistent memory, outside of the record, in a pool without
    /// checksums there: with them it is eight bytes more.
    public static long inPmem(long bytes) {
        return isInSlot(bytes) ? 0 : allocated(Buffers.PMEM_FRONT_BYTES + bytes);
    }

    /// A value of so many bytes on a disk.
    public static long onDisk(long bytes) {
        return isInSlot(bytes) ? 0 : allocated(CheckedFront.BYTES + bytes);
    }

    /// A value of so many bytes on the remote tier.
    public static long onRemote(long bytes) {
        return isInSlot(bytes) ? 0 : Segment.FRONT_BYTES + bytes;
    }

    /// Bytes of the slot, or the chunks, that so many need.
    private static long allocated(long bytes) {
        int sizeClass = SizeClasses.of(bytes);
        return sizeClass >= 0
                ? SizeClasses.slotBytes(sizeClass)
                : Math.ceilDiv(bytes, (long) SizeClasses.CHUNK_BYTES) * SizeClasses.CHUNK_BYTES;
    }
}
