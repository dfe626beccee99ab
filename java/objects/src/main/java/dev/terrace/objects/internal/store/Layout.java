package dev.terrace.objects.internal.store;

import dev.terrace.objects.FieldSpec;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.IntStream;

/// Where the fields of a class lie in its records: header, where the extension is, a bit per boxed
/// value that says whether it is there, fields; the widest first, so that none lies across two
/// words; arrays behind all others, so that short fields share the header's cache line.
///
/// An extension is a record in a later form of the class, with the fields that this form has not,
/// or not as wide.
///
/// @param offsets of each field from the record's begin; -1 for fields that live in this process
///   only
/// @param presence of each field the bit, from the record's begin, that says whether it is null; -1
///   if it needs none
/// @param bytes of a record
public record Layout(int[] offsets, int[] presence, int bytes) {
    /// Offset of the word that leads to a record's extension, or is 0.
    public static final int EXTENSION_AT = Headers.BYTES;

    /// Lays fields out.
    public static Layout of(List<FieldSpec> fields) {
        int[] offsets = new int[fields.size()];
        int[] presence = new int[fields.size()];
        Arrays.fill(offsets, -1);
        Arrays.fill(presence, -1);
        int bit = (EXTENSION_AT + Long.BYTES) * 8;
        for (int i = 0; i < fields.size(); i++) {
            if (needsPresence(fields.get(i))) {
                presence[i] = bit++;
            }
        }
        int at = (bit + 63) / 64 * 8;
        int[] order =
                IntStream.range(0, fields.size())
                        .boxed()
                        .sorted(
                                Comparator.comparing(i ->
                                        isArray(fields.get(i)) ? 0 : -alignment(fields.get(i))))
                        .mapToInt(Integer::intValue)
                        .toArray();
        for (int i : order) {
            FieldSpec field = fields.get(i);
            if (!field.isVolatile()) {
                int alignment = alignment(field);
                at = (at + alignment - 1) / alignment * alignment;
                offsets[i] = at;
                at = Math.addExact(at, width(field));
            }
        }
        return new Layout(
                offsets, presence, Math.max(SizeClasses.SLOT_BYTES_MIN, (at + 7) / 8 * 8));
    }

    private static boolean needsPresence(FieldSpec field) {
        return field.isInline()
                && field.nullable()
                && field.kind().ordinal() < dev.terrace.objects.FieldKind.ENUM.ordinal();
    }

    private static boolean isArray(FieldSpec field) {
        return field.isInline() && field.fixedLength() > 0;
    }

    private static int alignment(FieldSpec field) {
        return field.isInline() && !isArray(field) ? field.kind().width() : 8;
    }

    /// Bytes that a field has in a record.
    static int width(FieldSpec field) {
        if (!field.isInline()) {
            return Long.BYTES;
        }
        int elements = Math.max(1, field.fixedLength());
        return (Math.multiplyExact(elements, field.kind().width())
                        + (field.fixedLength() > 0 ? 7 : 0))
                & (field.fixedLength() > 0 ? -8 : -1);
    }
}
