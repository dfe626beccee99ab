package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Array;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// Objects whose class is known only when the program runs.
class DurableRecordTest {
    private static final List<FieldKind> NUMBERS =
            List.of(
                    FieldKind.BOOLEAN,
                    FieldKind.BYTE,
                    FieldKind.SHORT,
                    FieldKind.CHAR,
                    FieldKind.INT,
                    FieldKind.LONG,
                    FieldKind.FLOAT,
                    FieldKind.DOUBLE);
    private static final List<FieldKind> ARRAYS =
            List.of(
                    FieldKind.BOOLEANS,
                    FieldKind.BYTES,
                    FieldKind.SHORTS,
                    FieldKind.CHARS,
                    FieldKind.INTS,
                    FieldKind.LONGS,
                    FieldKind.FLOATS,
                    FieldKind.DOUBLES);
    private static final int TEXT = NUMBERS.size();
    private static final int FIRST_ARRAY = TEXT + 1;
    private static final int FIRST_FIXED = FIRST_ARRAY + ARRAYS.size();

    private static FieldSpec[] fields(StorageTier tier) {
        List<FieldSpec> fields = new ArrayList<>();
        NUMBERS.forEach(kind -> fields.add(FieldSpec.of("a " + kind, kind).on(tier)));
        fields.add(FieldSpec.of("text", FieldKind.STRING).on(tier).orNull());
        ARRAYS.forEach(kind -> fields.add(FieldSpec.of("some " + kind, kind).on(tier).orNull()));
        ARRAYS.forEach(
                kind -> fields.add(FieldSpec.of("three " + kind, kind).on(tier).ofLength(3)));
        return fields.toArray(new FieldSpec[0]);
    }

    private static Object array(FieldKind kind, int length) {
        Object array = Array.newInstance(ArrayFields.elementOf(kind), length);
        for (int i = 0; i < length; i++) {
            switch (array) {
                case boolean[] a -> a[i] = i % 2 == 0;
                case char[] a -> a[i] = (char) ('a' + i);
                default -> Array.setByte(array, i, (byte) (i - 1));
            }
        }
        return array;
    }

    private static void fill(DurableRecord record) {
        record.setBoolean(0, true);
        record.setByte(1, (byte) -1);
        record.setShort(2, (short) -2);
        record.setChar(3, 'c');
        record.setInt(4, -4);
        record.setLong(5, Long.MIN_VALUE);
        record.setFloat(6, -0.5f);
        record.setDouble(7, Double.NaN);
        record.setString(TEXT, "smørrebrød");
        for (int i = 0; i < ARRAYS.size(); i++) {
            record.setArray(FIRST_ARRAY + i, array(ARRAYS.get(i), 1000));
            record.setArray(FIRST_FIXED + i, array(ARRAYS.get(i), 3));
        }
    }

    private static void expectFilled(DurableRecord record) {
        assertTrue(record.getBoolean(0));
        assertEquals(-1, record.getByte(1));
        assertEquals(-2, record.getShort(2));
        assertEquals('c', record.getChar(3));
        assertEquals(-4, record.getInt(4));
        assertEquals(Long.MIN_VALUE, record.getLong(5));
        assertEquals(-0.5f, record.getFloat(6));
        assertEquals(Double.NaN, record.getDouble(7));
        assertEquals("smørrebrød", record.getString(TEXT));
        for (int i = 0; i < ARRAYS.size(); i++) {
            expectArray(record, FIRST_ARRAY + i, array(ARRAYS.get(i), 1000));
            expectArray(record, FIRST_FIXED + i, array(ARRAYS.get(i), 3));
        }
    }

    private static void expectArray(DurableRecord record, int field, Object expected) {
        int length = Array.getLength(expected);
        Object copy = Array.newInstance(expected.getClass().componentType(), length);
        assertEquals(length, record.getArrayLength(field));
        assertEquals(length, record.copyArray(field, copy));
        assertArrayEquals(
                new Object[] {expected, expected}, new Object[] {copy, record.getArray(field)});
    }

    @ParameterizedTest
    @EnumSource(names = {"PMEM", "SSD"})
    void fieldsHoldWhatTheyAreSetTo(StorageTier tier) {
        try (PoolDir dir = new PoolDir()) {
            ObjectType<DurableRecord> type = ObjectType.of("Reading", fields(tier));
            DurableRecord record = dir.pool().create(type);
            assertEquals(0, record.getLong(5));
            assertNull(record.getString(TEXT));
            assertNull(record.getArray(FIRST_ARRAY));
            assertEquals(-1, record.getArrayLength(FIRST_ARRAY));
            assertEquals(-1, record.copyArray(FIRST_ARRAY, new boolean[1]));
            fill(record);
            expectFilled(record);
            byte[] few = new byte[2];
            assertEquals(2, record.copyArray(FIRST_ARRAY + 1, few));
            assertArrayEquals(new byte[] {-1, 0}, few);
            record.setArray(FIRST_ARRAY, null);
            assertNull(record.getArray(FIRST_ARRAY));
        }
    }

    @Test
    void aClassIsReadByWhatThePoolHasStoredOfIt() {
        try (PoolDir dir = new PoolDir()) {
            fill(dir.pool().create(ObjectType.of("Reading", fields(StorageTier.PMEM))));
            Pool pool = dir.reopen();
            ObjectType<DurableRecord> type = ObjectType.of(new PoolDump(pool).types().getFirst());
            Cursor<DurableRecord> cursor = pool.cursor(type);
            assertTrue(cursor.next());
            expectFilled(cursor.get());
            assertTrue(!cursor.next());
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"PMEM", "SSD"})
    void numbersMayBeNull(StorageTier tier) {
        List<Object> values =
                List.of(true, (byte) -1, (short) -2, 'c', -4, Long.MIN_VALUE, -0.5f, Double.NaN);
        try (PoolDir dir = new PoolDir()) {
            FieldSpec[] fields =
                    NUMBERS.stream()
                            .map(kind -> FieldSpec.of("a " + kind, kind).on(tier).orNull())
                            .toArray(FieldSpec[]::new);
            DurableRecord record = dir.pool().create(ObjectType.of("Reading", fields));
            for (int i = 0; i < fields.length; i++) {
                int field = i;
                assertNull(record.getBoxed(field));
                record.setBoxed(field, values.get(field));
                assertEquals(values.get(field), record.getBoxed(field));
                assertThrows(IllegalArgumentException.class, () -> record.setBoxed(field, "text"));
                record.setBoxed(field, null);
                assertNull(record.getBoxed(field));
            }
            assertEquals(
                    "Reading: field a INT may be null: use getBoxed and setBoxed",
                    assertThrows(IllegalArgumentException.class, () -> record.getInt(4))
                            .getMessage());
        }
    }

    @Test
    void aFieldOfAnotherKindIsRefusedByName() {
        try (PoolDir dir = new PoolDir()) {
            FieldSpec memory = FieldSpec.of("memory", FieldKind.INT).on(StorageTier.DRAM);
            FieldSpec[] fields = {
                FieldSpec.of("time", FieldKind.LONG),
                FieldSpec.of("row", FieldKind.DOUBLES).orNull(),
                memory
            };
            DurableRecord record = dir.pool().create(ObjectType.of("Reading", fields));
            assertEquals(
                    "Reading: field time holds LONG, not INT",
                    assertThrows(IllegalArgumentException.class, () -> record.setInt(0, 1))
                            .getMessage());
            assertEquals(
                    "Reading: field time holds LONG, no array",
                    assertThrows(IllegalArgumentException.class, () -> record.getArray(0))
                            .getMessage());
            assertEquals(
                    "Reading: field row holds DOUBLES, and this is a int[]",
                    assertThrows(
                                    IllegalArgumentException.class,
                                    () -> record.setArray(1, new int[1]))
                            .getMessage());
            assertThrows(IllegalArgumentException.class, () -> record.copyArray(1, new float[1]));
            assertThrows(IllegalArgumentException.class, () -> record.getInt(2));
            assertThrows(IllegalArgumentException.class, () -> record.getBoxed(0));
            assertThrows(IndexOutOfBoundsException.class, () -> record.getInt(3));
            assertEquals(0, record.getLong(0));
        }
    }
}
