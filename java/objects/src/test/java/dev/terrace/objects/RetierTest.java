package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.CollectionOwner;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A class gets other tags, and values that were stored before go where these say.
class RetierTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final StorageTier[] PMEM = {StorageTier.PMEM};
    private static final StorageTier[] DISK = {StorageTier.DISK};
    private static final StorageTier[] BOTH = {StorageTier.PMEM, StorageTier.DISK};
    private static final int THINGS = 30;
    private static final int ROW_BYTES = 100;

    @TempDir(factory = InMemory.class)
    Path dir;

    /// A class with these tags: of its text, its list and its row; and of its image and its number.
    private static ObjectType<Thing> type(StorageTier[] text, StorageTier[] image) {
        return ObjectType.of(
                "Thing",
                Thing.class,
                Thing::new,
                List.of(),
                FieldSpec.of("text", FieldKind.STRING).on(text).orNull(),
                FieldSpec.of("image", FieldKind.BYTES).on(image).orNull(),
                FieldSpec.of("row", FieldKind.BYTES).ofLength(ROW_BYTES).on(text),
                FieldSpec.of("names", FieldKind.REFERENCE)
                        .on(text)
                        .to("java.util.List<java.lang.String>")
                        .orNull(),
                FieldSpec.of("number", FieldKind.LONG).on(image));
    }

    private static final class Thing extends CollectionOwner {
        private int at(int field) {
            return ((DurableObject) this).mapping().type.offset(field);
        }

        DurableList<String> names() {
            return Objects.requireNonNull(getList(3, at(3), ElementType.STRING));
        }

        void fill(int i) {
            setString(0, at(0), text(i));
            setBytes(1, at(1), image(i));
            setBytes(2, at(2), Arrays.copyOf(image(i), ROW_BYTES));
            setList(3, at(3), ElementType.STRING, List.of(text(i), "x", text(i + 1)));
            setLong(4, at(4), (long) i << 40);
        }

        void check(int i) {
            assertEquals(text(i), getString(0, at(0)));
            assertArrayEquals(image(i), getBytes(1, at(1)));
            assertArrayEquals(Arrays.copyOf(image(i), ROW_BYTES), getBytes(2, at(2)));
            assertEquals(List.of(text(i), "x", text(i + 1)), names());
            assertEquals((long) i << 40, getLong(4, at(4)));
        }
    }

    private static String text(int i) {
        return ("text " + i).repeat(100);
    }

    private static byte[] image(int i) {
        return ("image " + i)
                .repeat(300 + i)
                .getBytes(java.nio.charset.StandardCharsets.ISO_8859_1);
    }

    private static DurableList<Thing> things(Pool pool, ObjectType<Thing> type) {
        return DurableList.root(pool, "things", ElementType.of(type));
    }

    private static void make(Pool pool, ObjectType<Thing> type, int count) {
        pool.transact(() -> {
            for (int i = 0; i < count; i++) {
                Thing thing = pool.create(type);
                thing.fill(i);
                things(pool, type).add(thing);
            }
        });
    }

    private static void mustBeWhole(Pool pool, ObjectType<Thing> type) {
        int i = 0;
        for (Thing thing : things(pool, type)) {
            thing.check(i++);
        }
        PoolReport report = pool.check();
        assertEquals(List.of(), report.problems());
        assertEquals(0, report.leakedBytes());
    }

    @Test
    void valuesGoWhereTheTagsSay() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            make(pool, type(PMEM, DISK), THINGS);
        }
        ObjectType<Thing> type = type(DISK, PMEM);
        try (Pool pool = Pool.open(dir, SMALL)) {
            RetierReport report = pool.retier(type);
            // Of each: text, image, number, and two of the list's three texts, the other one being
            // short.
            assertEquals(5 * THINGS, report.valuesMoved());
            assertEquals(0, report.valuesLeft());
            assertEquals(ROW_BYTES * THINGS, report.recordBytes());
            mustBeWhole(pool, type);
            assertEquals(new RetierReport(0, 0, 0, ROW_BYTES * THINGS), pool.retier(type));
            long onDisk = pool.statistics().used().get(1);
            things(pool, type).getFirst().fill(0);
            things(pool, type).get(1).names().set(1, text(5));
            assertTrue(
                    pool.statistics().used().get(1) > onDisk,
                    "what is set anew goes by the new tags");
            assertEquals(new RetierReport(0, 0, 0, ROW_BYTES * THINGS), pool.retier(type));
            things(pool, type).get(1).names().set(1, "x");
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            mustBeWhole(pool, type);
        }
    }

    @Test
    void whatFindsNoRoomGoesTheNextTime() throws IOException {
        ObjectType<Thing> old = type(DISK, DISK);
        ObjectType<Thing> type = type(DISK, BOTH);
        PoolOptions tiny = SMALL.pmem(1 << 20);
        try (Pool pool = Pool.open(dir, tiny)) {
            make(pool, old, 200);
        }
        try (Pool pool = Pool.open(dir, tiny)) {
            RetierReport first = pool.retier(type);
            assertTrue(first.valuesMoved() > 0 && first.valuesLeft() > 0, first::toString);
            mustBeWhole(pool, type);
            while (things(pool, type).size() > THINGS) {
                things(pool, type).removeLast().delete();
            }
            RetierReport second = pool.retier(type);
            assertEquals(0, second.valuesLeft(), second::toString);
            mustBeWhole(pool, type);
        }
    }

    @Test
    void whatHasLeftDoesNotComeBackByOldTags() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            make(pool, type(BOTH, BOTH), THINGS);
        }
        ObjectType<Thing> type = type(DISK, DISK);
        try (Pool pool = Pool.open(dir, SMALL)) {
            assertTrue(pool.retier(type).valuesMoved() > 0);
            pool.balancer().promoteAll();
            assertEquals(0, pool.promotedBytes());
        }
        // A program without the class goes by its newest form.
        try (Pool pool = Pool.open(dir, SMALL)) {
            pool.balancer().promoteAll();
            assertEquals(0, pool.promotedBytes());
            mustBeWhole(pool, type);
        }
    }

    @Test
    void elementsOfListsFollowThroughHandlesThatAreThere() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            make(pool, type(PMEM, PMEM), 1);
            ObjectType<Thing> type = type(DISK, PMEM);
            List<DurableList<String>> handles = new ArrayList<>();
            handles.add(things(pool, type).getFirst().names());
            pool.retier(type);
            long onDisk = pool.statistics().used().get(1);
            handles.getFirst().add(text(7));
            assertTrue(pool.statistics().used().get(1) > onDisk);
        }
    }

    @Test
    void itIsNoPartOfATransaction() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                pool.retier(type(PMEM, PMEM));
                            }));
        }
    }

    @Test
    void aFullTierKeepsNothingFromAnotherOne() throws IOException {
        PoolOptions disks =
                SMALL.disk(StorageTier.SSD, Files.createDirectory(dir.resolve("ssd")), 1 << 20)
                        .disk(StorageTier.HDD, Files.createDirectory(dir.resolve("hdd")), 16 << 20);
        int count = 700;
        try (Pool pool = Pool.open(dir, disks)) {
            make(pool, type(PMEM, PMEM), count);
        }
        try (Pool pool = Pool.open(dir, disks)) {
            ObjectType<Thing> type =
                    type(new StorageTier[] {StorageTier.SSD}, new StorageTier[] {StorageTier.HDD});
            RetierReport report = pool.retier(type);
            assertTrue(report.valuesLeft() > 0, report::toString);
            long images = 0;
            for (int i = 0; i < count; i++) {
                images += image(i).length;
            }
            assertTrue(pool.statistics().used().get(2) >= images, report::toString);
            mustBeWhole(pool, type);
        }
    }
}
