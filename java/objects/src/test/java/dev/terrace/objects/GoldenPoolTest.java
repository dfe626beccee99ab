package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.lang.reflect.Array;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// The pools that were made when the format's versions and features were can be read, field by
/// field, and written.
class GoldenPoolTest {
    @TempDir(factory = InMemory.class)
    Path dir;

    private static Map<String, PoolDump.GenericObject> objects(Pool pool) {
        PoolDump dump = new PoolDump(pool);
        Map<Long, PoolDump.GenericObject> byReference = new LinkedHashMap<>();
        dump.forEach(null, Long.MAX_VALUE, object -> byReference.put(object.reference(), object));
        Map<String, PoolDump.GenericObject> byRoot = new LinkedHashMap<>();
        dump.roots()
                .forEach((name, leads) -> {
                    if (!name.startsWith(GoldenValues.ROOTS)) {
                        byRoot.put(
                                name,
                                Objects.requireNonNull(byReference.remove(leads.reference())));
                    }
                });
        assertEquals(Map.of(), byReference, "each object has a root");
        return byRoot;
    }

    /// An array as a list, so that it can be compared.
    static @Nullable Object comparable(@Nullable Object value) {
        return value != null && value.getClass().isArray() ? list(value) : value;
    }

    private static Map<String, @Nullable Object> comparable(Map<String, @Nullable Object> fields) {
        Map<String, @Nullable Object> comparable = new LinkedHashMap<>();
        fields.forEach((name, value) -> comparable.put(name, comparable(value)));
        return comparable;
    }

    private static List<Object> list(Object array) {
        List<Object> list = new ArrayList<>();
        for (int i = 0; i < Array.getLength(array); i++) {
            list.add(Array.get(array, i));
        }
        return list;
    }

    private static void expectAll(Pool pool, GoldenPool.Kept kept) {
        Map<String, PoolDump.GenericObject> objects = objects(pool);
        PoolDump.GenericObject far = objects.remove("far");
        assertEquals(
                kept.has(Feature.REMOTE) ? Map.of("text", GoldenPool.FAR_TEXT) : null,
                far == null ? null : far.fields());
        assertEquals(
                kept.has(Feature.PLACEMENTS) ? GoldenPool.PLACED : Map.of(), pool.placements());
        if (kept.has(Feature.GROUPS)) {
            expectGroups(objects);
        }
        if (kept.has(Feature.VALUE_ELEMENTS)) {
            GoldenValues.ALL.forEach(values -> values.expect(pool));
        }
        assertEquals(
                List.of("blank \u65e5", "extended", "old", "thing 0", "thing 1", "thing 2"),
                List.copyOf(objects.keySet()));
        for (int seed = 0; seed < 3; seed++) {
            PoolDump.GenericObject object = Objects.requireNonNull(objects.get("thing " + seed));
            var self = new PoolDump.Reference(object.reference(), GoldenPool.CLASS);
            assertEquals(
                    comparable(GoldenPool.expected(GoldenPool.Thing.TYPE, seed, self)),
                    comparable(object.fields()));
            assertEquals(2, object.type().id());
        }
        PoolDump.GenericObject old = Objects.requireNonNull(objects.get("old"));
        assertEquals(Map.of("long", -7), old.fields());
        assertEquals(1, old.type().id());
        PoolDump.GenericObject extended = Objects.requireNonNull(objects.get("extended"));
        assertEquals(Map.of("long", -8), extended.fields());
        Map<String, @Nullable Object> since = Objects.requireNonNull(extended.extension()).fields();
        assertEquals(-8L, since.get("long"));
        assertEquals(GoldenPool.LONG_TEXT, since.get("string"));
        Map<String, @Nullable Object> blank =
                Objects.requireNonNull(objects.get("blank \u65e5")).fields();
        assertEquals(0, blank.get("int"));
        assertEquals(null, blank.get("boxed_int"));
        assertEquals(null, blank.get("string"));
        assertEquals(null, blank.get("enum"));
        assertEquals(3, Array.getLength(assertInstanceOf(int[].class, blank.get("ints"))));
    }

    private static void expectGroups(Map<String, PoolDump.GenericObject> objects) {
        assertEquals(
                comparable(
                        GoldenPool.expected(
                                GoldenPool.Grouped.TYPE, GoldenPool.GROUPED_SEED, null)),
                comparable(Objects.requireNonNull(objects.remove("grouped")).fields()));
        Map<String, @Nullable Object> blank =
                Objects.requireNonNull(objects.remove("grouped blank")).fields();
        assertEquals(0, blank.get("int"));
        assertEquals(null, blank.get("near_boxed_int"));
        assertEquals(null, blank.get("string"));
        assertEquals(3, Array.getLength(assertInstanceOf(int[].class, blank.get("near_ints"))));
    }

    @ParameterizedTest
    @EnumSource
    void itCanBeReadAndWrittenUnlessItIsSealed(GoldenPool.Kept kept) throws IOException {
        PoolOptions options = GoldenPool.extract(kept, dir);
        byte[] before = Files.readAllBytes(dir.resolve("pool"));
        try (Pool pool = Pool.open(dir, options.toRead())) {
            expectAll(pool, kept);
            assertEquals(List.of(), pool.check().problems());
            assertEquals(kept.has(Feature.SEALED), pool.isSealed());
        }
        if (kept.has(Feature.SEALED)) {
            assertThrows(PoolReadOnlyException.class, () -> Pool.open(dir, options.existing()));
        }
        assertTrue(
                Arrays.equals(before, Files.readAllBytes(dir.resolve("pool"))),
                "a reader leaves it as it is");
        if (!kept.has(Feature.SEALED)) {
            write(kept, options);
        }
    }

    private void write(GoldenPool.Kept kept, PoolOptions options) throws IOException {
        try (Pool pool = Pool.open(dir, options.existing())) {
            assertEquals(
                    Superblock.VERSION,
                    Files.readAllBytes(dir.resolve("pool"))[8],
                    "who writes has it be of this version");
            assertEquals(kept.has(Feature.REMOTE), Feature.REMOTE.isIn(pool.store().pmem()));
            assertEquals(
                    kept.has(Feature.PLACEMENTS), Feature.PLACEMENTS.isIn(pool.store().pmem()));
            assertEquals(kept.has(Feature.GROUPS), Feature.GROUPS.isIn(pool.store().pmem()));
            assertEquals(
                    kept.has(Feature.VALUE_ELEMENTS),
                    Feature.VALUE_ELEMENTS.isIn(pool.store().pmem()));
            assertEquals(kept.has(Feature.COLUMNS), Feature.COLUMNS.isIn(pool.store().pmem()));
            assertTrue(Feature.CHECKED_DISK.isIn(pool.store().pmem()));
            assertEquals(
                    kept.has(Feature.CHECKED_PMEM), Feature.CHECKED_PMEM.isIn(pool.store().pmem()));
            expectAll(pool, kept);
            PoolReport report = pool.check();
            Map<String, Long> objects = new TreeMap<>(Map.of(GoldenPool.CLASS, 6L));
            if (kept.has(Feature.REMOTE)) {
                objects.put(GoldenPool.Far.TYPE.name(), 1L);
            }
            if (kept.has(Feature.GROUPS)) {
                objects.put(GoldenPool.Grouped.TYPE.name(), 2L);
            }
            if (kept.has(Feature.VALUE_ELEMENTS)) {
                List.of("lists", "maps", "sorted maps")
                        .forEach(kind -> objects.put(kind, (long) GoldenValues.ALL.size()));
            }
            assertEquals(
                    new PoolReport(List.of(), objects, report.bytes(), Map.of(), 0, 0), report);
            GoldenPool.Thing old =
                    Objects.requireNonNull(pool.root("old", GoldenPool.Thing.TYPE).get());
            assertEquals(
                    -7,
                    pool.fields().getBits(old, GoldenPool.Thing.indexOf("long"), FieldKind.LONG),
                    "the old form, as the class is now");
            old.delete();
            GoldenPool.Thing more = pool.create(GoldenPool.Thing.TYPE);
            byte[] picture = new byte[1000];
            Arrays.fill(picture, (byte) 3);
            pool.arrays().set(more, GoldenPool.Thing.indexOf("disk_bytes"), picture);
            pool.root("old", GoldenPool.Thing.TYPE).set(more);
        }
        try (Pool pool = Pool.open(dir, options.toRead())) {
            byte[] picture =
                    assertInstanceOf(
                            byte[].class,
                            Objects.requireNonNull(objects(pool).get("old"))
                                    .fields()
                                    .get("disk_bytes"));
            assertEquals(1000, picture.length);
            assertEquals(List.of(), pool.check().problems());
        }
    }
}
