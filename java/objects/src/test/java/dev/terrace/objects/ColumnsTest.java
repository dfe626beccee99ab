package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Chunks in columns: the places in them, and how they come and go.
class ColumnsTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int CHUNK_BYTES = 1 << 16;

    @TempDir(factory = InMemory.class)
    Path dir;

    private static List<FieldSpec> random(Random random) {
        List<FieldSpec> fields = new ArrayList<>();
        for (int i = random.nextInt(40); i >= 0; i--) {
            FieldKind kind = FieldKind.values()[random.nextInt(FieldKind.values().length)];
            FieldSpec field = FieldSpec.of("field " + i, kind);
            if (kind.isArray() && random.nextBoolean()) {
                field = field.ofLength(1 + random.nextInt(random.nextInt(10) == 0 ? 400 : 9));
            } else if (random.nextInt(3) == 0) {
                field = field.orNull();
            }
            if (random.nextInt(6) == 0) {
                field = field.on(StorageTier.DRAM);
            } else if (random.nextInt(6) == 0 && kind.ordinal() <= FieldKind.ENUM.ordinal()) {
                field = field.on(StorageTier.SSD).inGroup();
            }
            fields.add(field);
        }
        return fields;
    }

    /// Notes bytes of a chunk that nothing else has.
    private static void take(BitSet taken, long place, int width) {
        int from = Math.toIntExact(place);
        assertTrue(from >= 0 && from + width <= CHUNK_BYTES, () -> from + " of a chunk");
        assertEquals(0, from % Math.min(width, Long.BYTES), "no value crosses a word");
        assertTrue(taken.nextSetBit(from) < 0 || taken.nextSetBit(from) >= from + width);
        taken.set(from, from + width);
    }

    @Test
    void placesInAChunkDoNotOverlap() {
        Random random = new Random(1);
        for (int round = 0; round < 300; round++) {
            List<FieldSpec> fields = random(random);
            Layout layout = Layout.of(fields, true);
            assertEquals(CHUNK_BYTES / layout.bytes(), layout.objectsPerChunk());
            BitSet taken = new BitSet();
            long chunk = (long) CHUNK_BYTES * random.nextInt(1000);
            for (int slot = 0; slot < layout.objectsPerChunk(); slot++) {
                long record = chunk + 16L * slot;
                take(taken, record - chunk, 16);
                Set<Long> words = new HashSet<>();
                for (int i = 0; i < fields.size(); i++) {
                    if (layout.hasPlace(i)) {
                        take(taken, layout.place(record, i) - chunk, layout.widths()[i]);
                    }
                    if (layout.presence()[i] >= 0
                            && words.add(layout.placeOfBit(record, layout.presence()[i]))) {
                        take(taken, layout.placeOfBit(record, layout.presence()[i]) - chunk, 8);
                    }
                }
            }
            assertEquals(Layout.of(fields).bytes(), layout.bytes());
        }
    }

    private static Layout row(int bytes) {
        int elements = bytes / Long.BYTES - 2;
        return Layout.of(List.of(FieldSpec.of("row", FieldKind.LONGS).ofLength(elements)), true);
    }

    @Test
    void aRecordOfMoreThanHalfAChunkLiesInARow() {
        assertEquals(2048, row(32).objectsPerChunk());
        assertEquals(2, row(CHUNK_BYTES / 2).objectsPerChunk());
        assertEquals(1, row(CHUNK_BYTES / 2 + 8).objectsPerChunk());
        assertEquals(1, row(CHUNK_BYTES).objectsPerChunk());
        assertEquals(1, row(5 * CHUNK_BYTES).objectsPerChunk());
    }

    private static ObjectType<DurableRecord> rowsOf(int bytes) {
        return ObjectType.of(
                        "Row",
                        FieldSpec.of("row", FieldKind.LONGS).ofLength(bytes / Long.BYTES - 2))
                .inColumns();
    }

    private static List<DurableRecord> make(Pool pool, ObjectType<DurableRecord> type, int count) {
        return pool.transact(() -> {
            List<DurableRecord> objects = new ArrayList<>();
            int last = type.fields().getFirst().fixedLength() - 1;
            for (int i = 0; i < count; i++) {
                DurableRecord object = pool.create(type);
                object.setLongAt(0, type.offset(0), 0, i);
                object.setLongAt(0, type.offset(0), last, -i);
                objects.add(object);
            }
            return objects;
        });
    }

    private static void expect(List<DurableRecord> objects) {
        for (int i = 0; i < objects.size(); i++) {
            long[] row = (long[]) Objects.requireNonNull(objects.get(i).getArray(0));
            assertEquals(-i, row[row.length - 1]);
            assertEquals(row.length == 1 ? -i : i, row[0]);
            assertEquals(row[0], element(objects.get(i), 0));
            assertEquals(-i, element(objects.get(i), row.length - 1));
        }
    }

    private static long element(DurableRecord object, int index) {
        ObjectType<?> type = object.mapping().type;
        return object.getLongAt(0, type.offset(0), type.fields().get(0).fixedLength(), index);
    }

    private static long chunkOf(DurableRecord object) {
        return object.record() / CHUNK_BYTES;
    }

    /// A chunk is filled, and one object more is made; then they go, and others lie where they
    /// were.
    @ParameterizedTest
    @ValueSource(
            ints = {24, 32, 40, 48, 1000, 4096, 21_840, 21_848, 32_768, 32_776, 65_536, 70_000})
    void aChunkIsFilledAndGivenBack(int bytes) throws IOException {
        ObjectType<DurableRecord> type = rowsOf(bytes);
        int perChunk = type.layout().objectsPerChunk();
        assertEquals(Math.max(1, CHUNK_BYTES / Math.max(32, bytes)), perChunk);
        try (Pool pool = Pool.open(dir, SMALL)) {
            assertFalse(Feature.COLUMNS.isIn(pool.store().pmem()));
            List<DurableRecord> objects = make(pool, type, perChunk + 1);
            assertTrue(Feature.COLUMNS.isIn(pool.store().pmem()));
            expect(objects);
            for (int i = 0; i < perChunk; i++) {
                assertEquals(chunkOf(objects.getFirst()), chunkOf(objects.get(i)));
            }
            DurableRecord alone = objects.removeLast();
            assertNotEquals(chunkOf(objects.getFirst()), chunkOf(alone));
            try (Pool reader = Pool.open(dir, SMALL.toRead())) {
                int met = 0;
                for (Cursor<DurableRecord> each = reader.cursor(type); each.next(); ) {
                    met++;
                }
                assertEquals(perChunk + 1, met);
                assertEquals(List.of(), reader.check().problems());
            }
            long used = pool.statistics().used().getFirst();
            pool.transact(() -> objects.forEach(DurableObject::delete));
            long size = pool.store().parts().sizeOf(-1, alone.record());
            assertEquals(used - perChunk * size, pool.statistics().used().getFirst());
            ObjectType<DurableRecord> others =
                    ObjectType.of("Other", FieldSpec.of("number", FieldKind.LONG));
            pool.transact(() -> {
                for (int i = 0; i < 20 * CHUNK_BYTES / 32; i++) {
                    pool.create(others).setLong(0, -1);
                }
            });
            for (DurableRecord gone : objects) {
                assertFalse(gone.isAlive());
                assertThrows(StaleReferenceException.class, () -> element(gone, 0));
            }
            assertEquals(-perChunk, element(alone, type.fields().get(0).fixedLength() - 1));
            expect(make(pool, type, perChunk));
            assertEquals(List.of(), pool.check().problems());
        }
    }

    /// Also if the first objects of a chunk were rolled back, and the chunk with them.
    @ParameterizedTest
    @ValueSource(ints = {24, 4096, 70_000})
    void aHandleOfWhatWasRolledBackNeverFindsWhatIsMadeNext(int bytes) throws IOException {
        ObjectType<DurableRecord> columns = rowsOf(bytes);
        ObjectType<DurableRecord> rows =
                ObjectType.of("Other", columns.fields().toArray(FieldSpec[]::new));
        try (Pool pool = Pool.open(dir, SMALL)) {
            for (ObjectType<DurableRecord> type : List.of(columns, rows)) {
                List<DurableRecord> gone = new ArrayList<>();
                for (int i = 0; i < 2; i++) {
                    assertThrows(
                            IllegalStateException.class,
                            () ->
                                    pool.transact(() -> {
                                        gone.addAll(make(pool, type, 3));
                                        throw new IllegalStateException("on purpose");
                                    }));
                }
                List<DurableRecord> next = make(pool, type, 3);
                expect(next);
                for (DurableRecord each : gone) {
                    assertFalse(each.isAlive());
                    assertFalse(next.contains(each));
                    assertThrows(StaleReferenceException.class, () -> element(each, 0));
                }
            }
            assertEquals(List.of(), pool.check().problems());
        }
    }

    /// Objects are made as the class is now, and read as they were made.
    @Test
    void aClassMayComeToColumnsAndGoBack() throws IOException {
        ObjectType<DurableRecord> columns =
                ObjectType.of(
                                "Thing",
                                FieldSpec.of("number", FieldKind.INT),
                                FieldSpec.of("flag", FieldKind.BOOLEAN))
                        .inColumns();
        for (int i = 0; i < 4; i++) {
            ObjectType<DurableRecord> rows =
                    ObjectType.of("Thing", columns.fields().toArray(FieldSpec[]::new));
            ObjectType<DurableRecord> now = i % 2 == 0 ? rows : columns;
            try (Pool pool = Pool.open(dir, SMALL)) {
                DurableRecord made = pool.create(now);
                made.setInt(0, i);
                made.setBoolean(1, i % 3 == 0);
                assertEquals(i % 2 == 0 ? 1 : CHUNK_BYTES / 32, made.mapping().objectsPerChunk);
                int[] found = new int[Cursor.BATCH_MAX];
                BitSet numbers = new BitSet();
                Cursor<DurableRecord> each = pool.cursor(now);
                for (int count = each.nextBatch(); count > 0; count = each.nextBatch()) {
                    each.copyInts(0, found, 0);
                    for (int k = 0; k < count; k++) {
                        numbers.set(found[k]);
                        DurableRecord object = pool.object(now, each.reference(k));
                        assertTrue(object.mapping().isNative, "read in place");
                        assertEquals(found[k], object.getInt(0));
                        assertEquals(found[k] % 3 == 0, object.getBoolean(1));
                    }
                }
                assertEquals(i + 1, numbers.cardinality());
                assertEquals(Math.min(i + 1, 2), pool.storedTypes().size());
            }
        }
    }

    /// What a chunk's descriptor says of its columns is damaged: objects that a walk would miss, or
    /// take for others.
    @ParameterizedTest
    @ValueSource(ints = {1, 32, 33, 40, 48, 49, 60})
    void aDamagedDescriptorIsFound(int bit) throws IOException {
        ObjectType<DurableRecord> type = rowsOf(64);
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurableRecord object = make(pool, type, 1).getFirst();
            pool.root("row", type).set(object);
            assertEquals(List.of(), pool.check().problems());
            Region pmem = pool.store().pmem();
            long map = Superblock.LOG_AT + pmem.getLong(40);
            long descriptor = map + chunkOf(object) * Long.BYTES;
            pmem.putLong(descriptor, pmem.getLong(descriptor) ^ 1L << bit);
            boolean isFound;
            try {
                isFound = !pool.check().problems().isEmpty();
            } catch (PoolDamagedException e) {
                isFound = true;
            }
            assertTrue(isFound);
        }
    }
}
