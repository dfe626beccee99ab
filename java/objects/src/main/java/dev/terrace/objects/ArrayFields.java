package dev.terrace.objects;

import dev.terrace.objects.internal.store.Store;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.reflect.Array;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Objects;
import java.util.function.IntFunction;
import org.jspecify.annotations.Nullable;

/// Array fields. They lie within the record if they have a fixed length and a single tier;
/// otherwise they are buffers, which are replaced as a whole.
final class ArrayFields {
    private static final ValueLayout.OfLong WORD =
            ValueLayout.JAVA_LONG_UNALIGNED.withOrder(ByteOrder.LITTLE_ENDIAN);

    /// The greatest length of an array of bytes in memory; it is more than any extent has.
    static final int BYTES_MAX = Integer.MAX_VALUE - 64;

    private final Store store;
    private final Fields fields;

    ArrayFields(Pool pool) {
        store = pool.store();
        fields = pool.fields();
    }

    int length(DurableObject object, int field) {
        FieldSpec spec = object.mapping().field(field);
        if (spec.fixedLength() > 0) {
            return spec.fixedLength();
        }
        int bytes = fields.slots().length(object, field);
        return bytes < 0 ? -1 : bytes / spec.kind().width();
    }

    /// An array of any length is copied once, from its buffer into the new array.
    @Nullable Object get(DurableObject object, int field) {
        FieldSpec spec = object.mapping().field(field);
        FieldKind kind = spec.kind();
        if (spec.fixedLength() == 0 && kind == FieldKind.BYTES) {
            return fields.slots().get(object, field);
        }
        if (spec.fixedLength() == 0 && kind != FieldKind.BOOLEANS) {
            Made made = new Made(kind);
            return fields.slots().copy(object, field, made) < 0 ? null : made.array;
        }
        byte[] bytes = bytes(object, field);
        if (bytes == null) {
            return null;
        }
        Object array = Array.newInstance(elementOf(kind), bytes.length / kind.width());
        decode(bytes, array, Array.getLength(array));
        return array;
    }

    /// Makes an array for as many bytes as there turn out to be.
    private static final class Made implements IntFunction<MemorySegment> {
        private final FieldKind kind;
        private @Nullable Object array;

        Made(FieldKind kind) {
            this.kind = kind;
        }

        @Override
        public MemorySegment apply(int bytes) {
            Object made = Array.newInstance(elementOf(kind), bytes / kind.width());
            array = made;
            return segment(made);
        }
    }

    int copy(DurableObject object, int field, Object into) {
        FieldSpec spec = object.mapping().field(field);
        int width = spec.kind().width();
        if (spec.fixedLength() == 0 && !(into instanceof boolean[])) {
            MemorySegment target = segment(into);
            int copied = fields.slots().copy(object, field, _ -> target);
            return copied < 0 ? -1 : copied / width;
        }
        byte[] bytes = bytes(object, field);
        if (bytes == null) {
            return -1;
        }
        int count = Math.min(bytes.length / width, Array.getLength(into));
        decode(bytes, into, count);
        return count;
    }

    /// The class of the elements of arrays of this kind.
    static Class<?> elementOf(FieldKind kind) {
        return switch (kind) {
            case BOOLEANS -> boolean.class;
            case BYTES -> byte.class;
            case SHORTS -> short.class;
            case CHARS -> char.class;
            case INTS -> int.class;
            case FLOATS -> float.class;
            case LONGS -> long.class;
            case DOUBLES -> double.class;
            default -> throw new AssertionError(kind);
        };
    }

    /// The array's bytes; null if it is null.
    private byte @Nullable [] bytes(DurableObject whole, int field) {
        DurableObject object = fields.toRead(whole, field);
        FieldSpec spec = object.mapping().field(field);
        FieldSpec stored = object.mapping().stored(field);
        if (stored == null) {
            return spec.fixedLength() == 0
                    ? null
                    : new byte[spec.fixedLength() * spec.kind().width()];
        }
        if (!stored.isInline()) {
            byte[] bytes = fields.slots().get(object, field);
            boolean isFixed = spec.fixedLength() > 0;
            return bytes == null && isFixed
                    ? new byte[spec.fixedLength() * spec.kind().width()]
                    : bytes;
        }
        return fields.readWords(
                object, object.place(field), spec.fixedLength() * spec.kind().width());
    }

    void set(DurableObject object, int field, @Nullable Object array) {
        FieldSpec spec = object.mapping().field(field);
        if (spec.fixedLength() > 0
                && (array == null || Array.getLength(array) != spec.fixedLength())) {
            String is = array == null ? "null" : "an array of " + Array.getLength(array);
            throw new IllegalArgumentException(
                    "field "
                            + spec.name()
                            + " has "
                            + spec.fixedLength()
                            + " elements, and "
                            + is
                            + " has not");
        }
        byte[] bytes = array == null ? null : encode(array, spec.kind());
        fields.write(() -> {
            DurableObject holder = fields.toWrite(object, field);
            FieldSpec stored = holder.mapping().stored(field);
            if (stored != null && stored.isInline() && bytes != null) {
                fields.change(holder, () -> put(holder, field, bytes));
            } else {
                fields.slots().setStored(holder, field, bytes);
            }
        });
    }

    private void put(DurableObject holder, int field, byte[] bytes) {
        long at = holder.place(field);
        if (bytes.length > Long.BYTES) {
            putWords(holder, at, bytes);
            return;
        }
        // Elements of a single word are values each, so that readers see a commit with all of them.
        int width = holder.mapping().field(field).kind().width();
        for (int i = 0; i < bytes.length; i += width) {
            fields.setBitsAt(holder, at + i, width, Fields.fromBytes(bytes, i, width));
        }
    }

    private void putWords(DurableObject object, long at, byte[] bytes) {
        MemorySegment source =
                MemorySegment.ofArray(Arrays.copyOf(bytes, (bytes.length + 7) / 8 * 8));
        for (int i = 0; i < bytes.length; i += Long.BYTES) {
            store.putWord(object.record(), at + i, source.get(WORD, i));
        }
    }

    long getElement(DurableObject whole, int field, int index) {
        DurableObject object = fields.toRead(whole, field);
        FieldSpec spec = object.mapping().field(field);
        FieldSpec stored = object.mapping().stored(field);
        if (stored != null && stored.isInline()) {
            int width = spec.kind().width();
            Objects.checkIndex(index, spec.fixedLength());
            return fields.getBitsAt(object, object.place(field) + index * width, width);
        }
        return fields.slots().element(object, field, index);
    }

    /// An array behind a slot is replaced as a whole. Its buffer never changes, because other
    /// threads may be reading it, and a read must see one commit.
    void setElement(DurableObject whole, int field, int index, long bits) {
        fields.write(() -> setElementIn(fields.toWrite(whole, field), field, index, bits));
    }

    private void setElementIn(DurableObject object, int field, int index, long bits) {
        FieldSpec spec = object.mapping().field(field);
        int width = spec.kind().width();
        FieldSpec stored = object.mapping().stored(field);
        if (stored != null && stored.isInline()) {
            Objects.checkIndex(index, spec.fixedLength());
            fields.setBitsAt(object, object.place(field) + index * width, width, bits);
            return;
        }
        fields.change(
                object,
                () -> {
                    byte[] bytes = bytes(object, field);
                    Objects.checkIndex(index, bytes == null ? 0 : bytes.length / width);
                    for (int i = 0; i < width; i++) {
                        Objects.requireNonNull(bytes)[index * width + i] = (byte) (bits >>> 8 * i);
                    }
                    fields.slots().set(object, field, bytes);
                });
    }

    private static byte[] encode(Object array, FieldKind kind) {
        long length = (long) Array.getLength(array) * kind.width();
        if (length > BYTES_MAX) {
            throw new PoolFullException(
                    "an array of " + length + " bytes: none has more than " + BYTES_MAX);
        }
        byte[] bytes = new byte[(int) length];
        if (array instanceof boolean[] flags) {
            for (int i = 0; i < flags.length; i++) {
                bytes[i] = (byte) (flags[i] ? 1 : 0);
            }
        } else {
            MemorySegment.ofArray(bytes).copyFrom(segment(array));
        }
        return bytes;
    }

    private static void decode(byte[] bytes, Object array, int count) {
        if (array instanceof boolean[] flags) {
            for (int i = 0; i < count; i++) {
                flags[i] = bytes[i] != 0;
            }
        } else {
            MemorySegment into = segment(array);
            MemorySegment.copy(
                    MemorySegment.ofArray(bytes),
                    0,
                    into,
                    0,
                    Math.min(bytes.length, into.byteSize()));
        }
    }

    /// An array's memory. All machines that this library runs on are little-endian, like the
    /// format.
    private static MemorySegment segment(Object array) {
        return switch (array) {
            case byte[] a -> MemorySegment.ofArray(a);
            case short[] a -> MemorySegment.ofArray(a);
            case char[] a -> MemorySegment.ofArray(a);
            case int[] a -> MemorySegment.ofArray(a);
            case float[] a -> MemorySegment.ofArray(a);
            case long[] a -> MemorySegment.ofArray(a);
            case double[] a -> MemorySegment.ofArray(a);
            default -> throw new AssertionError(array.getClass());
        };
    }
}
