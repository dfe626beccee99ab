package dev.terrace.objects;

import dev.terrace.objects.internal.store.ValueSize;
import java.util.List;

/// The bytes that records and values take on each tier, with headers and rounding. It is for
/// planning placements.
public final class StoredSize {
    /// Bytes of persistent memory for the record of a value on the remote tier.
    public static final long REMOTE_RECORD = ValueSize.REMOTE_RECORD;

    private StoredSize() {}

    /// Bytes of an object's record with these fields in persistent memory.
    public static long record(List<FieldSpec> fields) {
        return ValueSize.allocated(Layout.of(fields).bytes());
    }

    /// Bytes of a field in the record: of its value, or of its slot, or none.
    public static int inRecord(FieldSpec field) {
        return field.isVolatile() ? 0 : Layout.width(field);
    }

    /// Whether a value of so many bytes lies in its slot, for any tags.
    public static boolean isInSlot(double bytes) {
        return ValueSize.isInSlot(bytes);
    }

    /// Bytes of such a value in persistent memory, outside of the record, in a pool without
    /// checksums there; checksums take eight bytes more.
    public static long inPmem(long bytes) {
        return ValueSize.inPmem(bytes);
    }

    /// Bytes of such a value on a disk.
    public static long onDisk(long bytes) {
        return ValueSize.onDisk(bytes);
    }

    /// Bytes of such a value on the remote tier.
    public static long onRemote(long bytes) {
        return ValueSize.onRemote(bytes);
    }
}
