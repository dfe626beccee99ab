package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Array;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedClass;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Batches of a cursor give what getters give, whatever is between the objects and happens
/// meanwhile, in rows and in columns.
@ParameterizedClass
@ValueSource(booleans = {false, true})
class BatchTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int CHUNK_BYTES = 1 << 16;
    private static final int LENGTH = 3;

    /// Room before and behind what is copied.
    private static final int MARGIN = 5;

    @TempDir(factory = InMemory.class)
    Path dir;

    private final boolean columnar;

    /// A field of each kind, and an array of each; then the same on a disk.
    private final ObjectType<DurableRecord> all;

    private final ObjectType<DurableRecord> pair;

    BatchTest(boolean columnar) {
        this.columnar = columnar;
        all = type("All", all());
        pair =
                type(
                        "Pair",
                        FieldSpec.of("one", FieldKind.LONG),
                        FieldSpec.of("other", FieldKind.LONG));
    }

    private ObjectType<DurableRecord> type(String name, FieldSpec... fields) {
        ObjectType<DurableRecord> type = ObjectType.of(name, fields);
        return columnar ? type.inColumns() : type;
    }

    private static FieldSpec[] all() {
        List<FieldSpec> fields = new ArrayList<>();
        for (StorageTier tier : List.of(StorageTier.PMEM, StorageTier.SSD)) {
            for (FieldKind kind : FieldKind.values()) {
                FieldSpec field = FieldSpec.of(tier + "_" + kind, kind).on(tier);
                if (kind.isArray()) {
                    fields.add(field.ofLength(LENGTH));
                } else if (kind.ordinal() <= FieldKind.DOUBLE.ordinal()) {
                    fields.add(field);
                }
            }
        }
        return fields.toArray(FieldSpec[]::new);
    }

    private void fill(DurableRecord object, int seed) {
        for (int field = 0; field < all.fields().size(); field++) {
            FieldKind kind = all.fields().get(field).kind();
            if (kind.isArray()) {
                Object array = Array.newInstance(ArrayFields.elementOf(kind), LENGTH);
                for (int i = 0; i < LENGTH; i++) {
                    Array.set(array, i, value(kind.element(), seed * 31 + i));
                }
                object.setArray(field, array);
            } else {
                set(object, field, kind, seed);
            }
        }
    }

    private static void set(DurableRecord object, int field, FieldKind kind, int seed) {
        switch (kind) {
            case BOOLEAN -> object.setBoolean(field, seed % 3 == 0);
            case BYTE -> object.setByte(field, (byte) seed);
            case SHORT -> object.setShort(field, (short) -seed);
            case CHAR -> object.setChar(field, (char) (0xffff - seed));
            case INT -> object.setInt(field, seed * 0x9e3779b9);
            case FLOAT -> object.setFloat(field, -1.5f * seed);
            case LONG -> object.setLong(field, seed * 0x9e3779b97f4a7c15L);
            default -> object.setDouble(field, Math.PI * seed);
        }
    }

    private static Object value(FieldKind kind, int seed) {
        return switch (kind) {
            case BOOLEAN -> seed % 3 == 0;
            case BYTE -> (byte) seed;
            case SHORT -> (short) -seed;
            case CHAR -> (char) (0xffff - seed);
            case INT -> seed * 0x9e3779b9;
            case FLOAT -> -1.5f * seed;
            case LONG -> seed * 0x9e3779b97f4a7c15L;
            default -> Math.PI * seed;
        };
    }

    private static int copy(Cursor<?> cursor, int field, FieldKind element, Object into, int from) {
        return switch (element) {
            case BOOLEAN -> cursor.copyBooleans(field, (boolean[]) into, from);
            case BYTE -> cursor.copyBytes(field, (byte[]) into, from);
            case SHORT -> cursor.copyShorts(field, (short[]) into, from);
            case CHAR -> cursor.copyChars(field, (char[]) into, from);
            case INT -> cursor.copyInts(field, (int[]) into, from);
            case FLOAT -> cursor.copyFloats(field, (float[]) into, from);
            case LONG -> cursor.copyLongs(field, (long[]) into, from);
            default -> cursor.copyDoubles(field, (double[]) into, from);
        };
    }

    /// All that batches give of each object, and how many batches there were.
    private int read(Pool pool, Map<Long, List<Object>> into) {
        Cursor<DurableRecord> cursor = pool.cursor(all);
        int batches = 0;
        for (int count = cursor.nextBatch(); count > 0; count = cursor.nextBatch()) {
            batches++;
            assertEquals(cursor.get().reference(), cursor.reference(0));
            for (int i = 0; i < count; i++) {
                into.put(cursor.reference(i), new ArrayList<>());
            }
            int last = count;
            assertThrows(IndexOutOfBoundsException.class, () -> cursor.reference(last));
            for (int field = 0; field < all.fields().size(); field++) {
                FieldKind kind = all.fields().get(field).kind();
                FieldKind element = kind.isArray() ? kind.element() : kind;
                int each = kind.isArray() ? LENGTH : 1;
                Object values =
                        Array.newInstance(
                                ArrayFields.elementOf(
                                        FieldKind.values()[
                                                element.ordinal() + FieldKind.BOOLEANS.ordinal()]),
                                2 * MARGIN + count * each);
                assertEquals(count * each, copy(cursor, field, element, values, MARGIN));
                for (int i = 0; i < Array.getLength(values); i++) {
                    boolean isMargin = i < MARGIN || i >= MARGIN + count * each;
                    if (isMargin) {
                        assertEquals(
                                Array.get(
                                        Array.newInstance(values.getClass().componentType(), 1), 0),
                                Array.get(values, i));
                    } else {
                        Objects.requireNonNull(into.get(cursor.reference((i - MARGIN) / each)))
                                .add(Array.get(values, i));
                    }
                }
            }
        }
        return batches;
    }

    /// The same by getters.
    private List<Object> values(DurableRecord object) {
        List<Object> values = new ArrayList<>();
        for (int field = 0; field < all.fields().size(); field++) {
            FieldKind kind = all.fields().get(field).kind();
            if (kind.isArray()) {
                Object array = Objects.requireNonNull(object.getArray(field));
                for (int i = 0; i < LENGTH; i++) {
                    values.add(Array.get(array, i));
                }
            } else {
                values.add(
                        switch (kind) {
                            case BOOLEAN -> object.getBoolean(field);
                            case BYTE -> object.getByte(field);
                            case SHORT -> object.getShort(field);
                            case CHAR -> object.getChar(field);
                            case INT -> object.getInt(field);
                            case FLOAT -> object.getFloat(field);
                            case LONG -> object.getLong(field);
                            default -> object.getDouble(field);
                        });
            }
        }
        return values;
    }

    private int expectAll(Pool pool, List<DurableRecord> objects) {
        Map<Long, List<Object>> expected = new HashMap<>();
        objects.forEach(object -> expected.put(object.reference(), values(object)));
        Map<Long, List<Object>> found = new HashMap<>();
        int batches = read(pool, found);
        assertEquals(expected, found);
        return batches;
    }

    private List<DurableRecord> make(Pool pool, int count) {
        return pool.transact(() -> {
            List<DurableRecord> objects = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                objects.add(pool.create(all));
                fill(objects.getLast(), i);
            }
            return objects;
        });
    }

    @Test
    void batchesGiveWhatGettersGive() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL);
                Pool reader = Pool.open(dir, SMALL.toRead())) {
            List<DurableRecord> objects = make(pool, 700);
            int batches = expectAll(pool, objects);
            assertTrue(batches < 700 / 20, batches + " batches");
            // Gaps, and others of the same size.
            for (int i = 1; i < objects.size(); i += i % 7 + 1) {
                objects.remove(i).delete();
            }
            ObjectType<DurableRecord> others =
                    type("Others", all.fields().toArray(FieldSpec[]::new));
            for (int i = 0; i < 20; i++) {
                pool.create(others);
            }
            expectAll(pool, objects);
            expectAll(reader, objects);
            pool.transact(() -> {
                objects.forEach(object -> fill(object, (int) object.reference()));
                objects.addAll(make(pool, 3));
                objects.removeFirst().delete();
                assertEquals(objects.size(), expectAll(pool, objects), "each alone");
            });
            assertTrue(expectAll(reader, objects) < objects.size() / 5);
            pool.seal();
        }
        try (Pool sealed = Pool.open(dir, SMALL.toRead())) {
            List<DurableRecord> objects = new ArrayList<>();
            for (Cursor<DurableRecord> each = sealed.cursor(all); each.next(); ) {
                objects.add(each.copy());
            }
            expectAll(sealed, objects);
            try (Profiling profiling = sealed.profile()) {
                read(sealed, new HashMap<>());
                ClassProfile counted = profiling.profile().classes().getFirst();
                assertEquals(
                        List.of((long) objects.size()),
                        counted.fields().stream().map(FieldProfile::reads).distinct().toList());
            }
        }
    }

    /// Texts lie between the objects, in slots of the same size; so do objects of another class.
    @Test
    void whatLiesBetweenObjectsEndsNoBatch() throws IOException {
        ObjectType<DurableRecord> type =
                type(
                        "Named",
                        FieldSpec.of("number", FieldKind.INT),
                        FieldSpec.of("name", FieldKind.STRING).orNull());
        ObjectType<DurableRecord> other = type("Other", FieldSpec.of("number", FieldKind.LONG));
        try (Pool pool = Pool.open(dir, SMALL)) {
            for (int i = 0; i < 1000; i++) {
                DurableRecord object = pool.create(type);
                object.setInt(0, i);
                object.setString(1, "a text of " + i);
                if (i % 5 == 0) {
                    pool.create(other).setLong(0, -1);
                }
            }
            Cursor<DurableRecord> cursor = pool.cursor(type);
            int[] numbers = new int[Cursor.BATCH_MAX];
            int batches = 0;
            long sum = 0;
            for (int count = cursor.nextBatch(); count > 0; count = cursor.nextBatch()) {
                batches++;
                cursor.copyInts(0, numbers, 0);
                for (int i = 0; i < count; i++) {
                    sum += numbers[i];
                }
            }
            assertEquals(1000 * 999 / 2, sum);
            assertTrue(batches < 100, batches + " batches");
        }
    }

    /// Few objects are left of many: each is read alone.
    @Test
    void objectsFarApart() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<DurableRecord> objects = make(pool, 300);
            for (int i = objects.size() - 1; i >= 0; i--) {
                if (i % 11 != 0) {
                    objects.remove(i).delete();
                }
            }
            expectAll(pool, objects);
        }
    }

    /// Objects whose records take from a few words to chunks of their own.
    @ParameterizedTest
    @ValueSource(ints = {1, 3, 25, 29, 30, 61, 500, 1000, 2044, 2045, 2046, 4000, 8000, 20_000})
    void recordsMayBeLong(int elements) throws IOException {
        ObjectType<DurableRecord> type =
                type(
                        "Row",
                        FieldSpec.of("row", FieldKind.LONGS).ofLength(elements),
                        FieldSpec.of("number", FieldKind.INT));
        try (Pool pool = Pool.open(dir, SMALL)) {
            for (int i = 0; i < 70; i++) {
                DurableRecord object = pool.create(type);
                long[] row = new long[elements];
                row[0] = i;
                row[elements - 1] = i;
                object.setArray(0, row);
                object.setInt(1, i);
            }
            Cursor<DurableRecord> cursor = pool.cursor(type);
            long sum = 0;
            long numbers = 0;
            int most = 0;
            for (int count = cursor.nextBatch(); count > 0; count = cursor.nextBatch()) {
                most = Math.max(most, count);
                long[] rows = new long[count * elements];
                int[] number = new int[count];
                assertEquals(rows.length, cursor.copyLongs(0, rows, 0));
                cursor.copyInts(1, number, 0);
                for (int i = 0; i < count; i++) {
                    assertEquals(rows[i * elements], rows[(i + 1) * elements - 1]);
                    sum += rows[i * elements];
                    numbers += number[i];
                }
            }
            assertEquals(70 * 69 / 2, sum);
            assertEquals(sum, numbers);
            long slot = pool.store().parts().sizeOf(-1, cursor.get().record());
            // Something else may lie in a slot of the same word.
            long together = columnar ? CHUNK_BYTES / slot : (16 << 10) / slot;
            long possible = Math.clamp(together, 1, Cursor.BATCH_MAX);
            assertTrue(most <= possible && most > possible / 2, most + " of " + slot + " bytes");
        }
    }

    /// Some objects have another form, and some have values in an extension.
    @Test
    void objectsOfOtherFormsAreReadToo() throws IOException {
        ObjectType<DurableRecord> before = type("Thing", FieldSpec.of("number", FieldKind.INT));
        ObjectType<DurableRecord> after =
                type(
                        "Thing",
                        FieldSpec.of("number", FieldKind.LONG),
                        FieldSpec.of("more", FieldKind.INT));
        try (Pool pool = Pool.open(dir, SMALL)) {
            for (int i = 0; i < 100; i++) {
                pool.create(before).setInt(0, i);
            }
            for (int i = 100; i < 200; i++) {
                pool.create(after).setLong(0, 1L << 40 | i);
            }
            Cursor<DurableRecord> each = pool.cursor(after);
            for (int i = 0; each.next(); i++) {
                if (i % 3 == 0) {
                    each.get().setInt(1, 7);
                }
            }
            Cursor<DurableRecord> cursor = pool.cursor(after);
            long sum = 0;
            long more = 0;
            long[] numbers = new long[Cursor.BATCH_MAX];
            int[] mores = new int[Cursor.BATCH_MAX];
            for (int count = cursor.nextBatch(); count > 0; count = cursor.nextBatch()) {
                cursor.copyLongs(0, numbers, 0);
                cursor.copyInts(1, mores, 0);
                for (int i = 0; i < count; i++) {
                    sum += numbers[i];
                    more += mores[i];
                }
            }
            assertEquals(200L * 199 / 2 + (100L << 40), sum);
            assertEquals(67 * 7, more);
        }
    }

    /// Values that were read with the batch stay. Others may be gone: in columns all are read when
    /// they are asked for.
    @Test
    void objectsThatAreDeletedMeanwhile() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<DurableRecord> objects = make(pool, 10);
            List<Object> first = values(objects.getFirst());
            Cursor<DurableRecord> cursor = pool.cursor(all);
            assertEquals(10, cursor.nextBatch());
            objects.get(3).delete();
            make(pool, 1);
            int inline = index(StorageTier.PMEM + "_INT");
            int onDisk = index(StorageTier.SSD + "_INT");
            int[] into = new int[10];
            if (columnar) {
                assertThrows(StaleReferenceException.class, () -> cursor.copyInts(inline, into, 0));
            } else {
                assertEquals(10, cursor.copyInts(inline, into, 0));
                assertEquals(first.get(inline), into[0]);
                assertEquals(3 * 0x9e3779b9, into[3]);
            }
            assertThrows(
                    StaleReferenceException.class, () -> cursor.copyInts(onDisk, new int[10], 0));
            assertEquals(0, cursor.nextBatch());
            assertEquals(0, cursor.copyInts(inline, new int[0], 0));
        }
    }

    private int index(String field) {
        return all.fields().stream().map(FieldSpec::name).toList().indexOf(field);
    }

    @Test
    void whatDoesNotFitIsRefused() throws IOException {
        ObjectType<DurableRecord> type =
                type(
                        "Refused",
                        FieldSpec.of("number", FieldKind.INT),
                        FieldSpec.of("boxed", FieldKind.INT).orNull(),
                        FieldSpec.of("text", FieldKind.STRING),
                        FieldSpec.of("row", FieldKind.INTS).orNull(),
                        FieldSpec.of("cache", FieldKind.INT).on(StorageTier.DRAM));
        try (Pool pool = Pool.open(dir, SMALL)) {
            pool.create(type);
            pool.create(type);
            Cursor<DurableRecord> cursor = pool.cursor(type);
            assertEquals(2, cursor.nextBatch());
            int[] into = {9, 9, 9};
            for (int field = 1; field < 5; field++) {
                int refused = field;
                IllegalArgumentException e =
                        assertThrows(
                                IllegalArgumentException.class,
                                () -> cursor.copyInts(refused, into, 0));
                assertTrue(
                        String.valueOf(e.getMessage())
                                .contains("field " + type.fields().get(field).name()),
                        e::getMessage);
            }
            assertThrows(IllegalArgumentException.class, () -> cursor.copyLongs(0, new long[2], 0));
            for (int from : new int[] {-1, 2, 3, Integer.MAX_VALUE}) {
                assertThrows(IndexOutOfBoundsException.class, () -> cursor.copyInts(0, into, from));
            }
            assertThrows(IndexOutOfBoundsException.class, () -> cursor.copyInts(5, into, 0));
            assertArrayEquals(new int[] {9, 9, 9}, into);
            assertEquals(2, cursor.copyInts(0, into, 1));
            assertArrayEquals(new int[] {9, 0, 0}, into);
        }
    }

    private List<DurableRecord> pairs(Pool pool) {
        return pool.transact(() -> {
            List<DurableRecord> pairs = new ArrayList<>();
            for (int i = 0; i < 70; i++) {
                pairs.add(pool.create(pair));
            }
            return pairs;
        });
    }

    private static void setAll(Pool pool, List<DurableRecord> pairs, long value) {
        pool.transact(() ->
                pairs.forEach(pair -> {
                    pair.setLong(0, value);
                    pair.setLong(1, -value);
                }));
    }

    /// Returns how many batches of several objects there were. All values of each are of one
    /// commit, and so are those of a column, which may be of a later one; an object alone is read
    /// by getters, which may see a commit between them.
    private int lookAtPairs(Pool pool) {
        Cursor<DurableRecord> cursor = pool.cursor(pair);
        long[] one = new long[Cursor.BATCH_MAX];
        long[] other = new long[Cursor.BATCH_MAX];
        int batches = 0;
        for (int count = cursor.nextBatch(); count > 0; count = cursor.nextBatch()) {
            cursor.copyLongs(0, one, 0);
            cursor.copyLongs(1, other, 0);
            for (int i = 0; count > 1 && i < count; i++) {
                assertEquals(one[0], one[i]);
                assertEquals(columnar ? other[0] : -one[0], other[i]);
            }
            batches += count > 1 ? 1 : 0;
        }
        return batches;
    }

    /// After each single store of a writer, also between the words of a commit.
    @Test
    void aBatchOfAnotherProcessIsOfOneCommit() {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            List<DurableRecord> pairs = pairs(pool);
            Pool reader = rig.reader();
            int[] batches = {0};
            rig.onStore(() -> batches[0] += lookAtPairs(reader));
            for (int round = 1; round < 5; round++) {
                setAll(pool, pairs, round);
            }
            rig.onStore(() -> {});
            assertTrue(batches[0] > 4, batches[0] + " batches");
        }
    }

    @Test
    void aBatchBesideAWriterIsOfOneCommit() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL);
                Pool reader = Pool.open(dir, SMALL.toRead());
                var threads = Executors.newSingleThreadExecutor()) {
            List<DurableRecord> pairs = pairs(pool);
            AtomicBoolean done = new AtomicBoolean();
            Future<?> writes =
                    threads.submit(() -> {
                        for (long value = 1; !done.get(); value++) {
                            setAll(pool, pairs, value);
                        }
                    });
            try {
                int batches = 0;
                for (int look = 0; look < 5000 || batches < 100 && look < 1 << 20; look++) {
                    batches += lookAtPairs(look % 2 == 0 ? pool : reader);
                }
                assertTrue(batches >= 100, batches + " batches");
            } finally {
                done.set(true);
            }
            writes.get();
        }
    }
}
