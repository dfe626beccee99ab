package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Walks beside what changes meanwhile.
class CursorTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final ObjectType<Thing> THING = Thing.on(StorageTier.PMEM);
    private static final int CHUNK_BYTES = 1 << 16;
    private static final int SLOT_BYTES = 48;

    @TempDir(factory = InMemory.class)
    Path dir;

    private static List<Thing> make(Pool pool, int count) {
        return pool.transact(() -> {
            List<Thing> things = new ArrayList<>();
            for (int i = 0; i < count; i++) {
                Thing thing = pool.create(THING);
                thing.setNumber(i);
                things.add(thing);
            }
            return things;
        });
    }

    @Test
    void whatIsDeletedAheadIsNotMet() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<Thing> things = make(pool, 200);
            Cursor<Thing> cursor = pool.cursor(THING);
            long sum = 0;
            for (int i = 0; cursor.next(); i++) {
                sum += cursor.get().getNumber();
                if (i % 10 == 0 && 2 * i < 100) {
                    things.get(2 * i + 1).delete();
                    pool.transact(() -> things.get(150).setNumber(150));
                }
            }
            assertEquals(199 * 200 / 2 - (1 + 21 + 41 + 61 + 81), sum);
        }
    }

    @Test
    void inATransactionItSeesWhatThatHasDone() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<Thing> things = make(pool, 100);
            pool.transact(() -> {
                Cursor<Thing> cursor = pool.cursor(THING);
                assertTrue(cursor.next());
                things.subList(1, 50).forEach(DurableObject::delete);
                things.get(99).setNumber(1000);
                long sum = cursor.get().getNumber();
                while (cursor.next()) {
                    sum += cursor.get().getNumber();
                }
                assertEquals((50 + 98) * 49 / 2 + 1000, sum);
            });
        }
    }

    /// What a transaction that was rolled back has made of a chunk is none of it any more.
    @Test
    void afterARollbackItMeetsNothingOfWhatWasRolledBack() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            int perChunk = CHUNK_BYTES / SLOT_BYTES;
            List<Thing> things = make(pool, perChunk);
            assertEquals(SLOT_BYTES, pool.store().parts().sizeOf(-1, things.getFirst().record()));
            Cursor<Thing> cursor = pool.cursor(THING);
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                long begin = make(pool, 10).getFirst().record();
                                assertEquals(
                                        0, begin % CHUNK_BYTES, "they lie in a chunk of their own");
                                while (cursor.next() && cursor.get().record() != begin) {
                                    assertEquals(THING, cursor.get().mapping().type);
                                }
                                throw new IllegalStateException("on purpose");
                            }));
            // Bytes that look like headers of such objects, but for the mark.
            byte[] bytes = new byte[60_000];
            ByteBuffer words = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
            for (int at = SLOT_BYTES; at < 20 * SLOT_BYTES; at += SLOT_BYTES) {
                words.putLong(at - 16, (long) things.getFirst().mapping().id << 24 | 1);
            }
            pool.transact(() -> {
                things.getFirst().setBytes(bytes);
                assertFalse(cursor.next(), () -> "met " + cursor.get().record());
            });
        }
    }

    /// An object whose record takes a chunk of its own, and not only one.
    private static final class Large extends DurableObject {
        static final ObjectType<Large> TYPE =
                ObjectType.of(
                        "dev.terrace.objects.Large",
                        Large.class,
                        Large::new,
                        List.of(),
                        FieldSpec.of("row", FieldKind.DOUBLES)
                                .ofLength(10_000)
                                .on(StorageTier.PMEM));

        double getRow(int index) {
            return getDoubleAt(0, TYPE.offset(0), 10_000, index);
        }

        void setRow(int index, double value) {
            setDoubleAt(0, TYPE.offset(0), index, value);
        }
    }

    private static <D extends DurableObject> List<D> met(Pool pool, ObjectType<D> type) {
        List<D> met = new ArrayList<>();
        for (Cursor<D> cursor = pool.cursor(type); cursor.next(); ) {
            met.add(cursor.copy());
        }
        return met;
    }

    @Test
    void aWalkMeetsAllOfItsClassAmongObjectsOfOtherSizes() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<Thing> things = new ArrayList<>();
            List<DurablePerson> people = new ArrayList<>();
            List<Large> large = new ArrayList<>();
            for (int i = 0; i < 60; i++) {
                things.addAll(make(pool, i));
                people.add(DurablePerson.create(pool));
                people.getLast().setPlace("a place with a long name ".repeat(i));
                if (i % 20 == 0) {
                    large.add(pool.create(Large.TYPE));
                    large.getLast().setRow(9_999, i);
                }
            }
            assertEquals(Set.copyOf(things), Set.copyOf(met(pool, THING)));
            assertEquals(Set.copyOf(people), Set.copyOf(met(pool, DurablePerson.TYPE)));
            assertEquals(large, met(pool, Large.TYPE));
            assertEquals(40, met(pool, Large.TYPE).getLast().getRow(9_999));
        }
    }

    /// Some in the same extent, some in another.
    @Test
    void itGoesToAnyObjectByItsReference() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<Thing> things = make(pool, 60_000);
            assertTrue(pool.store().pmem().extents() > 1);
            Cursor<Thing> cursor = pool.cursor(THING);
            for (int i = 0; i < things.size(); i++) {
                int number = (int) (i * 7919L % things.size());
                Thing thing = cursor.at(things.get(number).reference());
                assertEquals(number, thing.getNumber());
                assertEquals(things.get(number), thing);
            }
            Set<Long> behind = new HashSet<>();
            cursor.at(things.get(50_000).reference());
            while (cursor.next()) {
                behind.add(cursor.get().getNumber());
            }
            assertTrue(behind.contains(50_001L) && !behind.contains(50_000L));
        }
    }

    @Test
    void itStaysWhereItIsWhenThereIsNoSuchObject() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<Thing> things = make(pool, 3);
            DurablePerson person = DurablePerson.create(pool);
            Cursor<Thing> cursor = pool.cursor(THING);
            cursor.at(things.getFirst().reference());
            long gone = things.get(1).reference();
            things.get(1).delete();
            assertThrows(StaleReferenceException.class, () -> cursor.at(gone));
            // Another object takes its place.
            make(pool, 1);
            assertThrows(StaleReferenceException.class, () -> cursor.at(gone));
            assertThrows(SchemaMismatchException.class, () -> cursor.at(person.reference()));
            for (long reference : new long[] {0, -1, 1L << 40 | 1, gone + 1}) {
                assertThrows(TerraceException.class, () -> cursor.at(reference));
            }
            assertEquals(things.getFirst(), cursor.get());
            pool.transact(() -> {
                Thing made = pool.create(THING);
                made.setNumber(77);
                assertEquals(77, cursor.at(made.reference()).getNumber());
            });
        }
    }

    @Test
    void aListIsReadInAnyOrderByACursor() throws IOException {
        ElementType<Thing> elements = ElementType.of(THING);
        try (Pool pool = Pool.open(dir.resolve("one"), SMALL);
                Pool other = Pool.open(dir.resolve("two"), SMALL)) {
            DurableList<Thing> list = DurableList.create(pool, elements);
            list.addAll(make(pool, 1000));
            list.set(500, null);
            Cursor<Thing> cursor = pool.cursor(THING);
            for (int i = 0; i < list.size(); i++) {
                int index = (int) (i * 7919L % list.size());
                Thing thing = list.read(index, cursor);
                assertEquals(list.get(index), thing);
                assertEquals(index == 500, thing == null);
            }
            assertThrows(IndexOutOfBoundsException.class, () -> list.read(1000, cursor));
            assertThrows(IndexOutOfBoundsException.class, () -> list.read(-1, cursor));
            Cursor<Thing> elsewhere = other.cursor(THING);
            assertThrows(IllegalArgumentException.class, () -> list.read(0, elsewhere));
            Cursor<DurablePerson> people = pool.cursor(DurablePerson.TYPE);
            assertThrows(SchemaMismatchException.class, () -> list.read(0, people));
            DurableList<String> texts = DurableList.create(pool, ElementType.STRING);
            texts.add("text");
            assertThrows(IllegalArgumentException.class, () -> texts.read(0, cursor));
            Objects.requireNonNull(list.get(1)).delete();
            assertThrows(StaleReferenceException.class, () -> list.read(1, cursor));
        }
    }

    @Test
    void whoWalksOnInAClosedPoolIsTold() throws IOException {
        Cursor<Thing> cursor;
        try (Pool pool = Pool.open(dir, SMALL)) {
            make(pool, 10);
            cursor = pool.cursor(THING);
            assertTrue(cursor.next());
        }
        assertThrows(PoolClosedException.class, cursor::next);
        assertThrows(PoolClosedException.class, () -> cursor.get().getNumber());
    }

    @Test
    void aWalkGoesOnBehindAnyPlace() throws IOException {
        for (ObjectType<Thing> type : List.of(THING, THING.inColumns())) {
            try (Pool pool = Pool.open(dir.resolve("columns " + type.isColumnar()), SMALL)) {
                List<Thing> things = new ArrayList<>();
                for (int i = 0; i < 300; i++) {
                    things.add(pool.create(type));
                }
                Cursor<Thing> cursor = pool.cursor(type);
                things.get(100).delete();
                for (int behind : new int[] {299, 0, 63, 64, 100, 200}) {
                    cursor.goOnBehind(things.get(behind).reference());
                    for (int i = behind + 1; i < things.size(); i++) {
                        if (i != 100) {
                            assertTrue(cursor.next());
                            assertEquals(things.get(i), cursor.get());
                        }
                    }
                    assertFalse(cursor.next());
                }
                // A part of a batch, and the rest of it again.
                int count = cursor.nextBatch();
                assertTrue(count > 10);
                cursor.goOnBehind(cursor.reference(9));
                assertTrue(cursor.nextBatch() > 0);
                assertEquals(things.get(10).reference(), cursor.reference(0));
                cursor.goOnBehind(0);
                assertTrue(cursor.next());
                assertEquals(things.getFirst(), cursor.get());
            }
        }
    }
}
