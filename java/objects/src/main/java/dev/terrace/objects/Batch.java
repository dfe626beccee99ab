package dev.terrace.objects;

import dev.terrace.objects.internal.store.Columns;
import dev.terrace.objects.internal.store.Epoch;
import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Store;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/// Objects of a cursor that are read together: those of a word of a chunk's bitmap, from one object
/// on. Their records are copied at once, and one look at the epoch behind that tells whether all of
/// them are of one commit. Fields within the records are then taken from the copy.
///
/// A batch that cannot be copied so has a single object, whose values are read one by one. That is
/// so while words are laid over those in place, if the object has another form, an extension or a
/// long record, or if a commit came between. Values outside of the records are read one by one,
/// too.
///
/// Of objects in columns only the headers and the words behind them are copied. Each field is
/// copied when it is asked for, from its column. If a commit has come between, its values are read
/// one by one, in a consistent read.
///
/// Invariant: `words` holds the records of all objects, or what precedes their fields, as of one
/// commit, with valid headers, of the form that getters expect, and without extensions; or nothing,
/// and there is one object.
final class Batch {
    /// The greatest number of objects.
    static final int OBJECTS_MAX = Long.SIZE;

    /// If fewer than one in so many slots holds an object, each object is copied alone.
    private static final int SLOTS_PER_OBJECT = 4;

    /// Records of 256 bytes still make batches of the greatest size; a copy of this length stays in
    /// the processor's first cache.
    private static final int WORDS_MAX = OBJECTS_MAX * 256 / Long.BYTES;

    /// Words from the begin of an object in columns to that of the next.
    private static final int COLUMN_STEP = Columns.FRONT_BYTES / Long.BYTES;

    private final Pool pool;
    private final ObjectType<?> type;
    private final @Nullable TypeMapping[] mappings;
    private final Store store;
    private final Epoch epoch;
    private final DurableObject alone;

    private final long[] words = new long[WORDS_MAX];
    private boolean isCopied;

    /// The form of objects in columns; null if the objects are not copied, or lie in rows.
    private @Nullable TypeMapping inColumns;

    /// The epoch's changes of which the copy is.
    private long copiedIn;

    /// The word at which each object's record begins, in `words`.
    private final int[] begins = new int[OBJECTS_MAX];

    private int count;

    /// The offset of the first object, and its header.
    private long first;

    private long firstHeader;

    /// @param mappings the forms of the class, by their numbers
    Batch(Pool pool, ObjectType<?> type, @Nullable TypeMapping[] mappings) {
        this.pool = pool;
        this.type = type;
        this.mappings = mappings;
        store = pool.store();
        epoch = store.epoch();
        alone = type.newHandle();
    }

    int count() {
        return count;
    }

    void clear() {
        count = 0;
    }

    /// Takes the object of a handle alone.
    void take(DurableObject object) {
        first = object.record();
        firstHeader = object.header();
        begins[0] = 0;
        count = 1;
        isCopied = false;
        inColumns = null;
    }

    /// Takes the object of a handle, and those behind it up to the first that cannot be read like
    /// it. All were found when the epoch's changes were `foundIn`.
    ///
    /// @param mapping the form that getters expect, which the object has
    /// @param step bytes from the begin of a slot to that of the next
    /// @param ahead a bit for each slot behind it that is in use; bit 0 is the next slot
    /// @return how many slots behind it there is no object any more that the batch lacks
    int take(DurableObject object, TypeMapping mapping, long step, long ahead, long foundIn) {
        take(object);
        long slotsMax = Math.min(OBJECTS_MAX, WORDS_MAX * Long.BYTES / step);
        if (slotsMax == 0 || !epoch.isPlain()) {
            return 0;
        }
        long wanted = slotsMax == OBJECTS_MAX ? ahead : ahead & (1L << slotsMax - 1) - 1;
        int slots = Long.SIZE - Long.numberOfLeadingZeros(wanted) + 1;
        if (SLOTS_PER_OBJECT * Long.bitCount(wanted) < slots) {
            wanted = 0;
            slots = 1;
        }
        int slotWords = (int) step / Long.BYTES;
        Region pmem = store.pmem();
        MemorySegment.copy(
                pmem.extentOf(first), Region.LONG, pmem.within(first), words, 0, slots * slotWords);
        int done = addBehind(mapping.id, slotWords, wanted);
        if (!epoch.isStill(foundIn) || words[0] != firstHeader || words[1] != 0) {
            count = 1;
            return 0;
        }
        isCopied = true;
        copiedIn = foundIn;
        inColumns = mapping.objectsPerChunk > 1 ? mapping : null;
        return done;
    }

    /// Adds objects from the copy. Slots with anything but objects of the class are left out.
    private int addBehind(int form, int slotWords, long wanted) {
        int done = 0;
        for (long left = wanted; left != 0; left &= left - 1) {
            int slot = Long.numberOfTrailingZeros(left) + 1;
            int begin = slot * slotWords;
            long header = words[begin];
            if (!store.belongs(first + (long) begin * Long.BYTES, header)) {
                break;
            }
            if (Headers.type(header) != form) {
                if (isOfClass(Headers.type(header))) {
                    break;
                }
            } else if (words[begin + Layout.EXTENSION_AT / Long.BYTES] != 0) {
                break;
            } else {
                begins[count++] = begin;
            }
            done = slot;
        }
        return done;
    }

    /// Whether objects with this type are of the class, in whatever form.
    private boolean isOfClass(int id) {
        return id < mappings.length && mappings[id] != null;
    }

    /// The reference of an object.
    long reference(int index) {
        int begin = begins[Objects.checkIndex(index, count)];
        return References.of(
                first + (long) begin * Long.BYTES, isCopied ? words[begin] : firstHeader);
    }

    /// Copies a field of all objects, the value of one behind that of the other.
    ///
    /// @param kind the kind of the values, or of their elements
    /// @param into an array of this kind
    /// @param from the element of `into` to begin with
    /// @param length of `into`
    /// @return the number of elements
    int copy(int field, FieldKind kind, Object into, int from, int length) {
        FieldSpec spec = type.fields().get(field);
        int each = elements(spec, kind);
        Objects.checkFromIndexSize(from, (long) count * each, (long) length);
        int at = type.offset(field);
        if (!isCopied || at < 0) {
            copyEach(field, spec, each, into, from);
        } else if (inColumns == null) {
            copyWithin(at, each, into, from);
        } else if (!copyColumn(inColumns, field, each, into, from)) {
            store.read(() -> copyEach(field, spec, each, into, from));
        }
        return count * each;
    }

    private boolean copyEach(int field, FieldSpec spec, int each, Object into, int from) {
        for (int i = 0; i < count; i++) {
            pool.bind(alone, type, reference(i));
            copyAlone(field, spec, into, from + i * each);
        }
        return true;
    }

    /// Copies values from their column in place; false if they may not be of the batch's commit.
    private boolean copyColumn(TypeMapping mapping, int field, int each, Object into, int from) {
        Region pmem = store.pmem();
        MemorySegment extent = pmem.extentOf(first);
        boolean isDense = mapping.isDense(field);
        for (int i = 0, next; i < count; i = next) {
            if (!epoch.isPlain()) {
                // Of a transaction that is rolled back nothing is to be seen behind the loop.
                return false;
            }
            next = isDense ? endOfRow(i) : i + 1;
            long record = pmem.within(first) + (long) begins[i] * Long.BYTES;
            int values = (next - i) * each;
            copy(extent, mapping.place(record, field), into, from + i * each, values);
        }
        return epoch.isPlain() && epoch.isStill(copiedIn);
    }

    /// The first object that is not in the slot behind the one before it, from an object on.
    private int endOfRow(int object) {
        if (begins[count - 1] - begins[object] == (count - 1 - object) * COLUMN_STEP) {
            return count;
        }
        int end = object + 1;
        while (begins[end] - begins[end - 1] == COLUMN_STEP) {
            end++;
        }
        return end;
    }

    private static void copy(MemorySegment extent, long place, Object into, int from, int values) {
        if (into instanceof boolean[] flags) {
            for (int i = 0; i < values; i++) {
                flags[from + i] = extent.get(Region.BYTE, place + i) != 0;
            }
        } else {
            MemorySegment.copy(extent, elementOf(into), place, into, from, values);
        }
    }

    private static ValueLayout elementOf(Object array) {
        return switch (array) {
            case byte[] _ -> Region.BYTE;
            case short[] _ -> DurableObject.SHORT;
            case char[] _ -> DurableObject.CHAR;
            case int[] _ -> DurableObject.INT;
            case float[] _ -> DurableObject.FLOAT;
            case long[] _ -> Region.LONG;
            case double[] _ -> DurableObject.DOUBLE;
            default -> throw new AssertionError(array.getClass());
        };
    }

    /// The number of elements of each object's value.
    private int elements(FieldSpec spec, FieldKind kind) {
        boolean isArray = spec.kind().isArray();
        boolean isRegular = isArray ? spec.fixedLength() > 0 : !spec.nullable();
        if ((isArray ? spec.kind().element() : spec.kind()) != kind
                || !isRegular
                || spec.isVolatile()) {
            throw new IllegalArgumentException(
                    type
                            + ": field "
                            + spec.name()
                            + " is not stored as a "
                            + kind
                            + " that is never null, nor as an array of a fixed length of them");
        }
        return isArray ? spec.fixedLength() : 1;
    }

    private void copyAlone(int field, FieldSpec spec, Object into, int at) {
        if (spec.kind().isArray()) {
            Object array = Objects.requireNonNull(pool.arrays().get(alone, field));
            System.arraycopy(array, 0, into, at, spec.fixedLength());
        } else {
            put(into, at, pool.fields().getBits(alone, field, spec.kind()));
        }
        Profiling.read(alone, field, (long) Math.max(1, spec.fixedLength()) * spec.kind().width());
    }

    private static void put(Object into, int at, long bits) {
        switch (into) {
            case boolean[] array -> array[at] = bits != 0;
            case byte[] array -> array[at] = (byte) bits;
            case short[] array -> array[at] = (short) bits;
            case char[] array -> array[at] = (char) bits;
            case int[] array -> array[at] = (int) bits;
            case float[] array -> array[at] = Float.intBitsToFloat((int) bits);
            case long[] array -> array[at] = bits;
            case double[] array -> array[at] = Double.longBitsToDouble(bits);
            default -> throw new AssertionError(into.getClass());
        }
    }

    /// Copies values that begin at byte `at` of each record, from the copy.
    private void copyWithin(int at, int each, Object into, int from) {
        if (each == 1) {
            copyValues(at, into, from);
            return;
        }
        int to = from;
        for (int i = 0; i < count; i++, to += each) {
            copyArray(Long.BYTES * begins[i] + at, each, into, to);
        }
    }

    /// The bits from byte `at` on; others follow behind those of a narrow value.
    private static long bits(long[] words, int at) {
        return words[at / Long.BYTES] >>> at % Long.BYTES * Byte.SIZE;
    }

    private void copyValues(int at, Object into, int from) {
        long[] words = this.words;
        int[] begins = this.begins;
        int count = this.count;
        switch (into) {
            case boolean[] array -> {
                for (int i = 0; i < count; i++) {
                    array[from + i] = (byte) bits(words, Long.BYTES * begins[i] + at) != 0;
                }
            }
            case byte[] array -> {
                for (int i = 0; i < count; i++) {
                    array[from + i] = (byte) bits(words, Long.BYTES * begins[i] + at);
                }
            }
            case short[] array -> {
                for (int i = 0; i < count; i++) {
                    array[from + i] = (short) bits(words, Long.BYTES * begins[i] + at);
                }
            }
            case char[] array -> {
                for (int i = 0; i < count; i++) {
                    array[from + i] = (char) bits(words, Long.BYTES * begins[i] + at);
                }
            }
            case int[] array -> {
                for (int i = 0; i < count; i++) {
                    array[from + i] = (int) bits(words, Long.BYTES * begins[i] + at);
                }
            }
            case float[] array -> {
                for (int i = 0; i < count; i++) {
                    array[from + i] =
                            Float.intBitsToFloat((int) bits(words, Long.BYTES * begins[i] + at));
                }
            }
            case long[] array -> {
                for (int i = 0; i < count; i++) {
                    array[from + i] = bits(words, Long.BYTES * begins[i] + at);
                }
            }
            case double[] array -> {
                for (int i = 0; i < count; i++) {
                    array[from + i] =
                            Double.longBitsToDouble(bits(words, Long.BYTES * begins[i] + at));
                }
            }
            default -> throw new AssertionError(into.getClass());
        }
    }

    private void copyArray(int begin, int each, Object into, int to) {
        long[] words = this.words;
        switch (into) {
            case boolean[] array -> {
                for (int k = 0; k < each; k++) {
                    array[to + k] = (byte) bits(words, begin + k) != 0;
                }
            }
            case byte[] array -> {
                for (int k = 0; k < each; k++) {
                    array[to + k] = (byte) bits(words, begin + k);
                }
            }
            case short[] array -> {
                for (int k = 0; k < each; k++) {
                    array[to + k] = (short) bits(words, begin + 2 * k);
                }
            }
            case char[] array -> {
                for (int k = 0; k < each; k++) {
                    array[to + k] = (char) bits(words, begin + 2 * k);
                }
            }
            case int[] array -> {
                for (int k = 0; k < each; k++) {
                    array[to + k] = (int) bits(words, begin + 4 * k);
                }
            }
            case float[] array -> {
                for (int k = 0; k < each; k++) {
                    array[to + k] = Float.intBitsToFloat((int) bits(words, begin + 4 * k));
                }
            }
            case long[] array -> {
                for (int k = 0; k < each; k++) {
                    array[to + k] = words[begin / Long.BYTES + k];
                }
            }
            case double[] array -> {
                for (int k = 0; k < each; k++) {
                    array[to + k] = Double.longBitsToDouble(words[begin / Long.BYTES + k]);
                }
            }
            default -> throw new AssertionError(into.getClass());
        }
    }
}
