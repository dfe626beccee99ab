package dev.terrace.objects.internal.store;

import static dev.terrace.objects.internal.store.SizeClasses.CHUNK_BYTES;

import java.util.BitSet;
import java.util.List;

/// The columns of a chunk whose slots are objects of one type: the values of each field lie side by
/// side, in the order of the slots.
///
/// A field of `width` bytes at byte `at` of a record has its column at byte `at * slots` of the
/// chunk, and its value in slot `s` at byte `s * width` of the column. So columns follow each other
/// as the fields of a record do, without gaps but those of the record. The first column is wider
/// than its place among the fields needs: it holds the header and the word behind it. Therefore
/// what begins at an object's offset is the same as in a row, and so are references and checks.
///
/// Invariants:
/// * All slots of such a chunk have the chunk's type, which its descriptor names: columns of
///   another type would overlap them.
/// * A value never crosses a word. A word of a narrow column has values of several objects, so its
///   bits are changed one value at a time ([Changes#put(long, long, long, long)]).
public final class Columns {
    /// Bytes of an object's header and the word behind it.
    public static final int FRONT_BYTES = 2 * Long.BYTES;

    private final int bytes;
    private final int slots;
    private final List<Column> fields;

    /// What has a column.
    ///
    /// @param at its byte in a record
    /// @param width its bytes: a multiple of a word, or 1, 2 or 4
    public record Column(int at, int width) {}

    /// @param bytes of a record
    /// @param fields all that follows the front
    public Columns(int bytes, List<Column> fields) {
        this.bytes = bytes;
        this.fields = List.copyOf(fields);
        slots = slots(bytes);
    }

    /// How many objects share a chunk; with fewer than two there are no columns.
    public static int slots(int bytes) {
        return CHUNK_BYTES / bytes;
    }

    /// Bytes of a record.
    int bytes() {
        return bytes;
    }

    /// The place of a value whose object begins at `record`. Both are offsets in a pool, or in an
    /// extent.
    ///
    /// @param slots the objects that share a chunk
    /// @param at the byte in a record
    /// @param width the bytes of the whole field
    public static long place(long record, int slots, int at, int width) {
        long within = record & CHUNK_BYTES - 1;
        return record - within + (long) at * slots + within / FRONT_BYTES * width;
    }

    /// Clears all that follows the header of a new object.
    void clear(Region pmem, Changes changes, long record) {
        pmem.putLong(record + Headers.BYTES, 0);
        for (Column field : fields) {
            long place = place(record, slots, field.at, field.width);
            if (field.width >= Long.BYTES) {
                pmem.zero(place, field.width);
            } else {
                long bits = (1L << field.width * Byte.SIZE) - 1;
                changes.put(
                        record,
                        place & -Long.BYTES,
                        bits << (place & Long.BYTES - 1) * Byte.SIZE,
                        0);
            }
        }
    }

    /// Flushes some objects of a chunk: of each column the lines with their values.
    void flush(Region pmem, long chunk, BitSet objects) {
        flush(pmem, chunk, FRONT_BYTES, objects);
        for (Column field : fields) {
            flush(pmem, chunk + (long) field.at * slots, field.width, objects);
        }
    }

    private static void flush(Region pmem, long column, int width, BitSet objects) {
        for (int from = objects.nextSetBit(0); from >= 0; ) {
            int to = objects.nextClearBit(from);
            pmem.flush(column + (long) from * width, (long) (to - from) * width);
            from = objects.nextSetBit(to);
        }
    }

    /// The number of an object among those of its chunk.
    static int slotOf(long record) {
        return (int) (record % CHUNK_BYTES) / FRONT_BYTES;
    }
}
