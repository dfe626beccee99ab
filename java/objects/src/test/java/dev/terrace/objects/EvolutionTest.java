package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A class may change after objects of it were stored.
class EvolutionTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final String NAME = "Thing";

    @TempDir(factory = InMemory.class)
    Path dir;

    enum Color {
        RED,
        GREEN,
        BLUE
    }

    private static ObjectType<Before> before(FieldSpec... fields) {
        return ObjectType.of(NAME, Before.class, Before::new, List.of(), fields);
    }

    private static ObjectType<After> after(FieldSpec... fields) {
        return ObjectType.of(NAME, After.class, After::new, List.of(), fields);
    }

    /// A handle of the class as it was.
    static final class Before extends DurableObject {
        void set(int field, int value) {
            setInt(field, mapping().type.offset(field), value);
        }

        void set(int field, @Nullable String value) {
            setString(field, -1, value);
        }

        void set(int field, Color value) {
            setEnum(field, mapping().type.offset(field), value);
        }
    }

    /// A handle of the class as it is.
    static final class After extends DurableObject {
        long number(int field) {
            return getLong(field, mapping().type.offset(field));
        }

        void set(int field, long value) {
            setLong(field, mapping().type.offset(field), value);
        }

        @Nullable String text(int field) {
            return getString(field, -1);
        }

        void set(int field, @Nullable String value) {
            setString(field, -1, value);
        }

        @Nullable Color color(int field) {
            return getEnum(field, mapping().type.offset(field), Color.values());
        }

        void set(int field, @Nullable Color value) {
            setEnum(field, mapping().type.offset(field), value);
        }

        double @Nullable [] row(int field) {
            return getDoubles(field, mapping().type.offset(field));
        }

        void set(int field, int index, double value) {
            setDoubleAt(field, mapping().type.offset(field), index, value);
        }
    }

    private void store(ObjectType<Before> type, Consumer<Before> fill) throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            Before thing = pool.create(type);
            fill.accept(thing);
            pool.root("thing", type).set(thing);
        }
    }

    private static After thing(Pool pool, ObjectType<After> type) {
        return Objects.requireNonNull(pool.root("thing", type).get());
    }

    @Test
    void fieldsThatAreNewCanBeReadAndWritten() throws IOException {
        store(
                before(
                        FieldSpec.of("a", FieldKind.INT),
                        FieldSpec.of("gone", FieldKind.STRING).orNull()),
                thing -> {
                    thing.set(0, -7);
                    thing.set(1, "a text that is longer than a slot");
                });
        ObjectType<After> type =
                after(
                        FieldSpec.of("new", FieldKind.STRING).orNull(),
                        FieldSpec.of("renamed", FieldKind.LONG).formerly("a"),
                        FieldSpec.of("row", FieldKind.DOUBLES).ofLength(3),
                        FieldSpec.of("color", FieldKind.ENUM)
                                .among("Color", "RED", "GREEN", "BLUE")
                                .orNull());
        for (int round = 0; round < 3; round++) {
            try (Pool pool = Pool.open(dir, SMALL)) {
                After thing = thing(pool, type);
                if (round == 0) {
                    assertEquals(-7, thing.number(1));
                    assertNull(thing.text(0));
                    assertNull(thing.color(3));
                    assertArrayEquals(new double[3], thing.row(2));
                    thing.set(0, "another text that is longer than a slot");
                    assertEquals(-7, thing.number(1), "what is widened moves along");
                    thing.set(1, 1L << 40);
                    thing.set(2, 1, 1.5);
                    thing.set(3, Color.BLUE);
                }
                assertEquals("another text that is longer than a slot", thing.text(0));
                assertEquals(1L << 40, thing.number(1));
                assertArrayEquals(new double[] {0, 1.5, 0}, thing.row(2));
                assertEquals(Color.BLUE, thing.color(3));
                PoolReport report = pool.check();
                assertEquals(List.of(), report.problems());
                assertEquals(
                        Map.of(NAME, 1L),
                        report.objects().entrySet().stream()
                                .filter(e -> e.getKey().equals(NAME))
                                .collect(
                                        java.util.stream.Collectors.toMap(
                                                Map.Entry::getKey, Map.Entry::getValue)));
                assertEquals(Map.of(), report.leaked());
                Cursor<After> cursor = pool.cursor(type);
                assertTrue(cursor.next());
                assertEquals(thing, cursor.get());
                assertFalse(cursor.next());
                if (round == 2) {
                    thing.delete();
                    pool.root("thing", type).set(null);
                    assertEquals(Map.of(), pool.check().leaked());
                }
            }
        }
    }

    /// Other fields can be set before it is, and do not lose it.
    @Test
    void aConstantThatIsGoneStaysUntilItIsReplaced() throws IOException {
        FieldSpec number = FieldSpec.of("number", FieldKind.INT);
        store(
                before(
                        number,
                        FieldSpec.of("color", FieldKind.ENUM)
                                .among("Color", "RED", "GREEN")
                                .orNull()),
                thing -> {
                    thing.set(0, -7);
                    thing.set(1, Color.RED);
                });
        ObjectType<After> type =
                after(
                        FieldSpec.of("number", FieldKind.LONG),
                        FieldSpec.of("color", FieldKind.ENUM)
                                .among("Color", "GREEN", "BLUE")
                                .orNull());
        try (Pool pool = Pool.open(dir, SMALL)) {
            After thing = thing(pool, type);
            assertEquals(-7, thing.number(0));
            thing.set(0, 1L << 40);
            assertEquals(Color.RED, thing.color(1));
            assertThrows(IllegalArgumentException.class, () -> thing.set(1, Color.RED));
            thing.set(1, Color.BLUE);
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            assertEquals(Color.BLUE, thing(pool, type).color(1));
            assertEquals(1L << 40, thing(pool, type).number(0));
            assertEquals(List.of(), pool.check().problems());
        }
    }

    @Test
    void anEnumMayGetOtherConstants() throws IOException {
        store(
                before(
                        FieldSpec.of("color", FieldKind.ENUM)
                                .among("Color", "GREEN", "RED")
                                .orNull()),
                thing -> thing.set(0, Color.RED));
        ObjectType<After> type =
                after(
                        FieldSpec.of("color", FieldKind.ENUM)
                                .among("Color", "RED", "GREEN", "BLUE")
                                .orNull());
        try (Pool pool = Pool.open(dir, SMALL)) {
            After thing = thing(pool, type);
            assertEquals(Color.RED, thing.color(0));
            thing.set(0, Color.BLUE);
            assertEquals(Color.BLUE, thing.color(0));
        }
    }

    @Test
    void otherTiersAreNoOtherClass() throws IOException {
        store(
                before(FieldSpec.of("text", FieldKind.STRING).orNull()),
                thing -> thing.set(0, "x".repeat(100)));
        ObjectType<After> type =
                after(FieldSpec.of("text", FieldKind.STRING).on(StorageTier.DISK).orNull());
        try (Pool pool = Pool.open(dir, SMALL)) {
            After old = thing(pool, type);
            assertEquals("x".repeat(100), old.text(0));
            assertEquals(0, pool.statistics().used().get(1));
            pool.create(type).set(0, "y".repeat(100));
            assertTrue(pool.statistics().used().get(1) > 0, "new objects follow the new tag");
        }
    }

    @Test
    void whatIsNoPermittedEvolutionIsRefusedByName() throws IOException {
        store(
                before(
                        FieldSpec.of("a", FieldKind.LONG),
                        FieldSpec.of("row", FieldKind.DOUBLES).ofLength(3)),
                thing -> {});
        try (Pool pool = Pool.open(dir, SMALL)) {
            ObjectType<After> type =
                    after(
                            FieldSpec.of("a", FieldKind.INT),
                            FieldSpec.of("row", FieldKind.DOUBLES).ofLength(4));
            SchemaMismatchException refused =
                    assertThrows(
                            SchemaMismatchException.class, () -> pool.root("thing", type).get());
            assertTrue(
                    refused.getMessage()
                            .contains("field a is LONG in the pool and INT in the class"),
                    refused::getMessage);
            assertTrue(
                    refused.getMessage()
                            .contains(
                                    "field row has 3 elements in the pool and 4 elements in the"
                                            + " class"),
                    refused::getMessage);
        }
    }

    @Test
    void aWalkReadsEachObjectInTheFormThatItWasStoredIn() throws IOException {
        int count = 100;
        try (Pool pool = Pool.open(dir, SMALL)) {
            ObjectType<Before> type =
                    before(FieldSpec.of("a", FieldKind.INT), FieldSpec.of("b", FieldKind.INT));
            for (int i = 0; i < count; i++) {
                Before thing = pool.create(type);
                thing.set(0, i);
                thing.set(1, -i);
            }
        }
        ObjectType<After> type =
                after(
                        FieldSpec.of("new", FieldKind.LONG),
                        FieldSpec.of("b", FieldKind.LONG),
                        FieldSpec.of("a", FieldKind.LONG));
        try (Pool pool = Pool.open(dir, SMALL)) {
            Cursor<After> cursor = pool.cursor(type);
            for (int i = 0; i < count; i++) {
                assertTrue(cursor.next());
                assertEquals(0, cursor.get().number(0));
                assertEquals(-i, cursor.get().number(1));
                assertEquals(i, cursor.get().number(2));
            }
            assertFalse(cursor.next());
        }
    }

    /// By its name, as it was stored, in whatever form of the class.
    @Test
    void aConstantIsReadByItsNameThoughTheClassHasItNoLonger() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            ObjectType<Before> before =
                    before(
                            FieldSpec.of("color", FieldKind.ENUM)
                                    .orNull()
                                    .among("Color", "RED", "GREEN"),
                            FieldSpec.of("next", FieldKind.REFERENCE).orNull().to(NAME));
            Before thing = pool.create(before);
            Before none = pool.create(before);
            thing.set(0, Color.RED);
            ObjectType<DurableRecord> now =
                    ObjectType.of(
                            NAME,
                            FieldSpec.of("next", FieldKind.REFERENCE).orNull().to(NAME),
                            FieldSpec.of("color", FieldKind.ENUM)
                                    .orNull()
                                    .among("Color", "GREEN", "BLUE"));
            assertEquals("RED", pool.object(now, thing.reference()).getConstant(1));
            DurableRecord empty = pool.object(now, none.reference());
            assertNull(empty.getConstant(1));
            assertEquals(0, empty.getReference(0));
            empty.setReference(0, 0, thing);
            long target = thing.reference();
            assertEquals(target, empty.getReference(0));
            thing.delete();
            assertEquals(target, empty.getReference(0));
            assertThrows(IllegalArgumentException.class, () -> empty.getConstant(0));
            assertThrows(IllegalArgumentException.class, () -> empty.getReference(1));
            assertThrows(StaleReferenceException.class, () -> pool.object(now, target));
        }
    }
}
