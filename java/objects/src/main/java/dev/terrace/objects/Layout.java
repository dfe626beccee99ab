package dev.terrace.objects;

import dev.terrace.objects.internal.store.Columns;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.ValueSize;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;

/// The places of a class's fields in its records. A record holds the header, the reference to the
/// extension, a bit per boxed value that tells null from a value, and the fields. Wide fields come
/// first, so that no field crosses a word. Arrays come last, so that short fields share the
/// header's cache line.
///
/// Grouped fields with the same tiers share a slot, which has the place of the first of them.
///
/// An extension is a record in a later form of the class, with the fields that this form lacks or
/// has in a narrower kind.
///
/// A record is a row: its fields lie side by side. Or it lies in [Columns]: then the offsets, which
/// are the same, say where the columns are. [#place(long, int, int)] is the one function from
/// offsets to places, for either.
///
/// @param offsets the offset of each field in the record; -1 for fields that are kept in this
///   process only
/// @param widths the bytes of each field at its offset
/// @param presence the bit of each field, counted from the record's begin, that tells whether it is
///   null; -1 if it has none
/// @param slots the field whose slot leads to each field's value: the first of its group; of
///   others, the field itself
/// @param bytes of a record
/// @param objectsPerChunk how many records share columns; 1 in rows
public record Layout(
        int[] offsets, int[] widths, int[] presence, int[] slots, int bytes, int objectsPerChunk) {
    /// Offset of the word that leads to a record's extension, or is 0.
    public static final int EXTENSION_AT = Headers.BYTES;

    private static final int FIELDS_AT = EXTENSION_AT + Long.BYTES;

    /// Lays fields out in rows.
    public static Layout of(List<FieldSpec> fields) {
        return of(fields, false);
    }

    /// Lays fields out.
    ///
    /// @param columnar whether records lie in columns, if two of them fit into a chunk
    public static Layout of(List<FieldSpec> fields, boolean columnar) {
        int[] offsets = new int[fields.size()];
        int[] widths = fields.stream().mapToInt(Layout::width).toArray();
        int[] presence = new int[fields.size()];
        Arrays.fill(offsets, -1);
        Arrays.fill(presence, -1);
        int bit = FIELDS_AT * 8;
        for (int i = 0; i < fields.size(); i++) {
            if (needsPresence(fields.get(i))) {
                presence[i] = bit++;
            }
        }
        int[] slots = firsts(fields);
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
            if (!field.isVolatile() && slots[i] == i) {
                int alignment = alignment(field);
                at = (at + alignment - 1) / alignment * alignment;
                offsets[i] = at;
                at = Math.addExact(at, widths[i]);
            }
        }
        for (int i = 0; i < offsets.length; i++) {
            offsets[i] = offsets[slots[i]];
        }
        int bytes = Math.max(ValueSize.RECORD_MIN, (at + 7) / 8 * 8);
        int objectsPerChunk = columnar ? Math.max(1, Columns.slots(bytes)) : 1;
        return new Layout(offsets, widths, presence, slots, bytes, objectsPerChunk);
    }

    /// Whether records lie in columns.
    boolean isInColumns() {
        return objectsPerChunk > 1;
    }

    /// The columns of all fields, and of the words with the bits that tell null from a value.
    Columns columns() {
        int lastBit = Arrays.stream(presence).max().orElse(-1);
        List<Columns.Column> all = new ArrayList<>();
        for (int at = FIELDS_AT; at * Byte.SIZE <= lastBit; at += Long.BYTES) {
            all.add(new Columns.Column(at, Long.BYTES));
        }
        for (int i = 0; i < offsets.length; i++) {
            if (hasPlace(i)) {
                all.add(new Columns.Column(offsets[i], widths[i]));
            }
        }
        return new Columns(bytes, all);
    }

    /// The place of a field of the record that begins at `record`.
    public long place(long record, int field) {
        return place(record, offsets[field], widths[field]);
    }

    /// The place of the word with a bit of the record that begins at `record`.
    long placeOfBit(long record, int bit) {
        return place(record, bit / Long.SIZE * Long.BYTES, Long.BYTES);
    }

    /// The place of what has `width` bytes at byte `at` of a record.
    private long place(long record, int at, int width) {
        return isInColumns() ? Columns.place(record, objectsPerChunk, at, width) : record + at;
    }

    /// For each field the first of its group; the field itself if it is in none.
    private static int[] firsts(List<FieldSpec> fields) {
        Map<List<StorageTier>, Integer> known = new HashMap<>();
        int[] firsts = new int[fields.size()];
        for (int i = 0; i < firsts.length; i++) {
            FieldSpec field = fields.get(i);
            Integer first = field.grouped() ? known.putIfAbsent(field.tiers(), i) : null;
            firsts[i] = first == null ? i : first;
        }
        return firsts;
    }

    /// Whether a field has a place in the record, of its own or as the first of its group.
    public boolean hasPlace(int field) {
        return offsets[field] >= 0 && slots[field] == field;
    }

    private static boolean needsPresence(FieldSpec field) {
        return field.isInline()
                && field.nullable()
                && field.kind().ordinal() < FieldKind.ENUM.ordinal();
    }

    private static boolean isArray(FieldSpec field) {
        return field.isInline() && field.fixedLength() > 0;
    }

    private static int alignment(FieldSpec field) {
        return field.isInline() && !isArray(field) ? field.kind().width() : 8;
    }

    /// Bytes of a field in a record.
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
