package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.invoke.MethodType;
import java.lang.reflect.Array;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Elements of arrays of each kind, within the record and elsewhere, read in place and through a
/// transaction.
class ElementsTest {
    private static final int LENGTH = 5;
    private static final FieldKind[] KINDS = {
        FieldKind.BOOLEANS,
        FieldKind.BYTES,
        FieldKind.SHORTS,
        FieldKind.CHARS,
        FieldKind.INTS,
        FieldKind.FLOATS,
        FieldKind.LONGS,
        FieldKind.DOUBLES
    };

    /// For each kind an array within the record, then for each kind one elsewhere.
    static final class Arrays extends DurableObject {
        static final ObjectType<Arrays> TYPE =
                ObjectType.of(
                        "dev.terrace.objects.Arrays",
                        Arrays.class,
                        Arrays::new,
                        List.of(),
                        fields());

        private static FieldSpec[] fields() {
            List<FieldSpec> fields = new ArrayList<>();
            for (FieldKind kind : KINDS) {
                fields.add(FieldSpec.of("fixed" + kind, kind).ofLength(LENGTH));
            }
            for (FieldKind kind : KINDS) {
                fields.add(FieldSpec.of("free" + kind, kind).orNull());
            }
            return fields.toArray(FieldSpec[]::new);
        }

        /// Has the arrays that lie elsewhere be there.
        void makeFree() {
            setBooleans(8, -1, new boolean[LENGTH]);
            setBytes(9, -1, new byte[LENGTH]);
            setShorts(10, -1, new short[LENGTH]);
            setChars(11, -1, new char[LENGTH]);
            setInts(12, -1, new int[LENGTH]);
            setFloats(13, -1, new float[LENGTH]);
            setLongs(14, -1, new long[LENGTH]);
            setDoubles(15, -1, new double[LENGTH]);
        }

        Object get(int field, int index) {
            int at = TYPE.offset(field);
            return switch (KINDS[field % KINDS.length]) {
                case BOOLEANS -> getBooleanAt(field, at, LENGTH, index);
                case BYTES -> getByteAt(field, at, LENGTH, index);
                case SHORTS -> getShortAt(field, at, LENGTH, index);
                case CHARS -> getCharAt(field, at, LENGTH, index);
                case INTS -> getIntAt(field, at, LENGTH, index);
                case FLOATS -> getFloatAt(field, at, LENGTH, index);
                case LONGS -> getLongAt(field, at, LENGTH, index);
                default -> getDoubleAt(field, at, LENGTH, index);
            };
        }

        /// Copies an array into a longer one.
        Object copy(int field) {
            int at = TYPE.offset(field);
            Class<?> element =
                    MethodType.methodType(get(field, 0).getClass()).unwrap().returnType();
            Object into = Array.newInstance(element, LENGTH + 1);
            int copied =
                    switch (into) {
                        case boolean[] booleans -> copyBooleans(field, at, LENGTH, booleans);
                        case byte[] bytes -> copyBytes(field, at, LENGTH, bytes);
                        case short[] shorts -> copyShorts(field, at, LENGTH, shorts);
                        case char[] chars -> copyChars(field, at, LENGTH, chars);
                        case int[] ints -> copyInts(field, at, LENGTH, ints);
                        case float[] floats -> copyFloats(field, at, LENGTH, floats);
                        case long[] longs -> copyLongs(field, at, LENGTH, longs);
                        default -> copyDoubles(field, at, LENGTH, (double[]) into);
                    };
            assertEquals(LENGTH, copied);
            return into;
        }

        void set(int field, int index, Object value) {
            int at = TYPE.offset(field);
            switch (value) {
                case Boolean b -> setBooleanAt(field, at, index, b);
                case Byte b -> setByteAt(field, at, index, b);
                case Short s -> setShortAt(field, at, index, s);
                case Character c -> setCharAt(field, at, index, c);
                case Integer i -> setIntAt(field, at, index, i);
                case Float f -> setFloatAt(field, at, index, f);
                case Long l -> setLongAt(field, at, index, l);
                default -> setDoubleAt(field, at, index, (Double) value);
            }
        }
    }

    /// A value of the kind of a field: all bits of it matter for some element.
    private static Object value(int field, int index) {
        long bits = 0x9e3779b97f4a7c15L * (field * LENGTH + index + 1);
        return switch (KINDS[field % KINDS.length]) {
            case BOOLEANS -> (bits & 1) != 0;
            case BYTES -> (byte) (bits >>> 8);
            case SHORTS -> (short) (bits >>> 8);
            case CHARS -> (char) (bits >>> 8);
            case INTS -> (int) (bits >>> 8);
            case FLOATS -> (float) (int) bits;
            case LONGS -> bits;
            default -> (double) bits;
        };
    }

    private static void expectAll(Arrays arrays, String when) {
        for (int field = 0; field < 2 * KINDS.length; field++) {
            Object copy = arrays.copy(field);
            for (int index = 0; index < LENGTH; index++) {
                assertEquals(
                        value(field, index),
                        arrays.get(field, index),
                        when + ": " + KINDS[field % KINDS.length]);
                assertEquals(
                        value(field, index),
                        Array.get(copy, index),
                        when + ": " + KINDS[field % KINDS.length]);
            }
        }
    }

    /// Elements behind slots: in the slot itself, in persistent memory, on a disk, and of arrays
    /// that were never set.
    static final class Behind extends DurableObject {
        static final ObjectType<Behind> TYPE =
                ObjectType.of(
                        "dev.terrace.objects.Behind",
                        Behind.class,
                        Behind::new,
                        List.of(),
                        FieldSpec.of("free", FieldKind.SHORTS).orNull(),
                        FieldSpec.of("disk", FieldKind.INTS).on(StorageTier.DISK).orNull(),
                        FieldSpec.of("fixed", FieldKind.LONGS)
                                .on(StorageTier.PMEM, StorageTier.DISK)
                                .ofLength(4));
    }

    @Test
    void anElementBehindASlotIsFoundWhereverTheArrayIs(@TempDir Path dir) throws IOException {
        try (Pool pool = Pool.open(dir, PoolOptions.defaults().extents(1 << 20))) {
            Behind behind = pool.create(Behind.TYPE);
            assertEquals(0, behind.getLongAt(2, -1, 4, 3));
            assertThrows(IndexOutOfBoundsException.class, () -> behind.getLongAt(2, -1, 4, 4));
            behind.setLongAt(2, -1, 3, -7);
            assertEquals(-7, behind.getLongAt(2, -1, 4, 3));
            for (int length : new int[] {1, 3, 4, 1000}) {
                short[] shorts = new short[length];
                int[] ints = new int[length];
                for (int i = 0; i < length; i++) {
                    shorts[i] = (short) (-1 - i);
                    ints[i] = Integer.MIN_VALUE + i;
                }
                behind.setShorts(0, -1, shorts);
                behind.setInts(1, -1, ints);
                for (int i = 0; i < length; i++) {
                    assertEquals(shorts[i], behind.getShortAt(0, -1, 0, i), length + " elements");
                    assertEquals(ints[i], behind.getIntAt(1, -1, 0, i), length + " elements");
                }
                assertThrows(
                        IndexOutOfBoundsException.class, () -> behind.getShortAt(0, -1, 0, length));
                assertThrows(
                        IndexOutOfBoundsException.class, () -> behind.getIntAt(1, -1, 0, length));
            }
        }
    }

    /// An array of 100 KiB in persistent memory is not copied for one of its elements; one on a
    /// disk is, to verify it.
    @Test
    void onlyTheElementIsRead(@TempDir Path dir) throws IOException {
        int length = 50_000;
        com.sun.management.ThreadMXBean threads =
                (com.sun.management.ThreadMXBean)
                        java.lang.management.ManagementFactory.getThreadMXBean();
        try (Pool pool = Pool.open(dir, PoolOptions.defaults().extents(1 << 20))) {
            Behind behind = pool.create(Behind.TYPE);
            behind.setShorts(0, -1, new short[length]);
            behind.setInts(1, -1, new int[length]);
            long before = threads.getCurrentThreadAllocatedBytes();
            for (int i = 0; i < 100; i++) {
                assertEquals(0, behind.getShortAt(0, -1, 0, length - 1 - i));
            }
            long between = threads.getCurrentThreadAllocatedBytes();
            assertEquals(0, behind.getIntAt(1, -1, 0, length - 1));
            long after = threads.getCurrentThreadAllocatedBytes();
            assertTrue(
                    between - before < 2L * length,
                    between - before + " bytes for a hundred elements");
            assertTrue(after - between > 4L * length, after - between + " bytes for one on a disk");
        }
    }

    @Test
    void eachElementIsReadAsItWasSet(@TempDir Path dir) throws IOException {
        try (Pool pool = Pool.open(dir, PoolOptions.defaults().extents(1 << 20))) {
            Arrays arrays = pool.create(Arrays.TYPE);
            pool.transact(() -> {
                arrays.makeFree();
                for (int field = 0; field < 2 * KINDS.length; field++) {
                    for (int index = 0; index < LENGTH; index++) {
                        arrays.set(field, index, value(field, index));
                    }
                }
                expectAll(arrays, "in the transaction");
            });
            expectAll(arrays, "in place");
            for (int field = 0; field < 2 * KINDS.length; field++) {
                int which = field;
                assertThrows(IndexOutOfBoundsException.class, () -> arrays.get(which, LENGTH));
                assertThrows(IndexOutOfBoundsException.class, () -> arrays.get(which, -1));
            }
            arrays.setBytes(9, -1, null);
            assertThrows(IndexOutOfBoundsException.class, () -> arrays.get(9, 0));
            arrays.delete();
            assertThrows(StaleReferenceException.class, () -> arrays.get(9, 0));
            assertThrows(StaleReferenceException.class, () -> arrays.get(0, 0));
        }
    }
}
