package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.CollectionOwner;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.ElementType;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.Medium;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.function.BiConsumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A pool is told tiers that hold instead of tags.
class PlacementTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int THINGS = 20;
    private static final List<StorageTier> PMEM = List.of(StorageTier.PMEM);
    private static final List<StorageTier> DISK = List.of(StorageTier.DISK);
    private static final ObjectType<Thing> TYPE =
            ObjectType.of(
                    "Thing",
                    Thing.class,
                    Thing::new,
                    List.of("OldThing"),
                    FieldSpec.of("text", FieldKind.STRING).orNull().formerly("oldText"),
                    FieldSpec.of("image", FieldKind.BYTES).orNull().on(StorageTier.DISK),
                    FieldSpec.of("names", FieldKind.REFERENCE)
                            .to("java.util.List<java.lang.String>")
                            .orNull(),
                    FieldSpec.of("number", FieldKind.INT),
                    FieldSpec.of("row", FieldKind.BYTES).ofLength(64),
                    FieldSpec.of("score", FieldKind.INT).on(StorageTier.DRAM),
                    FieldSpec.of("next", FieldKind.REFERENCE).to("Thing").orNull());

    @TempDir(factory = InMemory.class)
    Path dir;

    private static final class Thing extends CollectionOwner {
        void fill(int i) {
            setString(0, TYPE.offset(0), text(i));
            setBytes(1, TYPE.offset(1), new byte[1000 + i]);
            setList(2, TYPE.offset(2), ElementType.STRING, List.of(text(i)));
        }

        DurableList<String> names() {
            return Objects.requireNonNull(getList(2, TYPE.offset(2), ElementType.STRING));
        }

        void check(int i) {
            assertEquals(text(i), getString(0, TYPE.offset(0)));
            assertEquals(1000 + i, getLength(1, TYPE.offset(1)));
            assertEquals(List.of(text(i)), names());
        }
    }

    private static String text(int i) {
        return ("text " + i).repeat(100);
    }

    private static DurableList<Thing> things(Pool pool) {
        return DurableList.root(pool, "things", ElementType.of(TYPE));
    }

    private void make() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            for (int i = 0; i < THINGS; i++) {
                Thing thing = pool.create(TYPE);
                thing.fill(i);
                things(pool).add(thing);
            }
        }
    }

    private static void mustBeWhole(Pool pool) {
        int i = 0;
        for (Thing thing : things(pool)) {
            thing.check(i++);
        }
        PoolReport report = pool.check();
        assertEquals(List.of(), report.problems());
        assertEquals(0, report.leakedBytes());
    }

    @Test
    void valuesGoWhereThePoolWasTold() throws IOException {
        make();
        Map<String, List<StorageTier>> swapped = Map.of("text", DISK, "image", PMEM, "names", DISK);
        // The program that does this need not have the class.
        try (Pool pool = Pool.open(dir, SMALL)) {
            long onDisk = pool.statistics().used().get(1);
            RetierReport report = pool.place("Thing", swapped);
            assertEquals(3 * THINGS, report.valuesMoved());
            assertEquals(0, report.valuesLeft());
            assertEquals(Map.of("Thing", swapped), pool.placements());
            assertTrue(pool.statistics().used().get(1) != onDisk);
            mustBeWhole(pool);
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            assertEquals(Map.of("Thing", swapped), pool.placements());
            mustBeWhole(pool);
            long onDisk = pool.statistics().used().get(1);
            Thing more = pool.create(TYPE);
            more.fill(THINGS);
            things(pool).add(more);
            assertTrue(
                    pool.statistics().used().get(1) > onDisk,
                    "also what is written by who has the class");
            assertEquals(0, pool.retier(TYPE).valuesMoved());
            pool.balancer().promoteAll();
            assertEquals(0, pool.promotedBytes());
        }
    }

    @Test
    void tagsHoldAgainWhereNothingIsSaid() throws IOException {
        make();
        try (Pool pool = Pool.open(dir, SMALL)) {
            pool.place("Thing", Map.of("text", DISK, "image", PMEM));
            assertEquals(THINGS, pool.place("Thing", Map.of("text", DISK)).valuesMoved());
            assertEquals(THINGS, pool.place("Thing", Map.of()).valuesMoved());
            assertEquals(Map.of(), pool.placements());
            mustBeWhole(pool);
            SchemaMismatchException unknown =
                    assertThrows(SchemaMismatchException.class, () -> pool.place("Thin", Map.of()));
            assertTrue(
                    String.valueOf(unknown.getMessage()).contains("no class Thin, but [Thing]"),
                    unknown.getMessage());
        }
    }

    @Test
    void whatCannotBeIsRefusedAndChangesNothing() throws IOException {
        make();
        try (Pool pool = Pool.open(dir, SMALL)) {
            record Refused(
                    Class<? extends RuntimeException> as,
                    String field,
                    List<StorageTier> tiers,
                    String why) {}

            List<Refused> all =
                    List.of(
                            new Refused(
                                    SchemaMismatchException.class,
                                    "colour",
                                    PMEM,
                                    "no field colour"),
                            new Refused(
                                    IllegalArgumentException.class,
                                    "number",
                                    DISK,
                                    "within the records"),
                            new Refused(
                                    IllegalArgumentException.class,
                                    "row",
                                    DISK,
                                    "within the records"),
                            new Refused(
                                    IllegalArgumentException.class,
                                    "next",
                                    DISK,
                                    "within the records"),
                            new Refused(
                                    IllegalArgumentException.class, "score", PMEM, "memory only"),
                            new Refused(
                                    IllegalArgumentException.class,
                                    "text",
                                    List.of(),
                                    "durable tiers"),
                            new Refused(
                                    IllegalArgumentException.class,
                                    "text",
                                    List.of(StorageTier.DRAM),
                                    "durable tiers"),
                            new Refused(
                                    IllegalArgumentException.class,
                                    "text",
                                    List.of(StorageTier.PMEM, StorageTier.PMEM),
                                    "each once"),
                            new Refused(
                                    IllegalArgumentException.class,
                                    "text",
                                    List.of(StorageTier.HDD),
                                    "no tier HDD"));
            for (Refused refused : all) {
                RuntimeException e =
                        assertThrows(
                                refused.as,
                                () ->
                                        pool.place(
                                                "Thing",
                                                Map.of(
                                                        "image",
                                                        PMEM,
                                                        refused.field,
                                                        refused.tiers)));
                assertTrue(String.valueOf(e.getMessage()).contains(refused.why), e.getMessage());
            }
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                pool.place("Thing", Map.of("image", PMEM));
                            }));
            assertEquals(Map.of(), pool.placements());
            assertEquals(0, pool.retier(TYPE).valuesMoved());
        }
        try (Pool pool = Pool.open(dir, SMALL.toRead())) {
            assertThrows(
                    PoolReadOnlyException.class, () -> pool.place("Thing", Map.of("image", PMEM)));
            assertEquals(Map.of(), pool.placements());
        }
    }

    /// A field is found by its former name, a class too.
    @Test
    void whatHasAnotherNameNowIsFound() throws IOException {
        ObjectType<Thing> old =
                ObjectType.of(
                        "OldThing",
                        Thing.class,
                        Thing::new,
                        List.of(),
                        FieldSpec.of("oldText", FieldKind.STRING).orNull());
        try (Pool pool = Pool.open(dir, SMALL)) {
            pool.root("old", old).set(pool.create(old));
            pool.place("OldThing", Map.of("oldText", DISK));
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            Thing thing = Objects.requireNonNull(pool.root("old", TYPE).get());
            thing.setString(0, -1, text(1));
            assertTrue(pool.statistics().used().get(1) > 0);
            assertEquals(0, pool.retier(TYPE).valuesMoved());
            assertEquals(1, pool.place("OldThing", Map.of()).valuesMoved());
        }
    }

    /// What others ask while the pool is being told is answered as it was, and not kept.
    @Test
    void whoAsksMeanwhileDoesNotKeepWhatWas() throws IOException {
        make();
        Map<String, List<StorageTier>> wanted = Map.of("text", DISK);
        try (Pool pool = Pool.open(dir, SMALL)) {
            Map<String, Map<String, List<StorageTier>>> asks =
                    new LinkedHashMap<>(Map.of("Thing", wanted)) {
                        private static final long serialVersionUID = 1;

                        @Override
                        public void forEach(
                                BiConsumer<? super String, ? super Map<String, List<StorageTier>>>
                                        action) {
                            super.forEach(action);
                            assertEquals(
                                    Map.of(),
                                    CompletableFuture.supplyAsync(pool::placements).join());
                        }
                    };
            assertEquals(THINGS, pool.place(asks).valuesMoved());
            assertEquals(Map.of("Thing", wanted), pool.placements());
            long onDisk = pool.statistics().used().get(1);
            things(pool).get(0).setString(0, TYPE.offset(0), "x".repeat(100_000));
            assertTrue(pool.statistics().used().get(1) > onDisk);
        }
    }

    @Test
    void whoOnlyReadsIsToldWhatHoldsNow() throws IOException {
        make();
        try (Pool pool = Pool.open(dir, SMALL)) {
            // As another process opens it.
            PoolFiles files = PoolFiles.open(dir, SMALL.toRead());
            Pool other = Pool.on(files);
            assertEquals(Map.of(), other.placements());
            pool.place("Thing", Map.of("text", DISK));
            assertEquals(pool.placements(), other.placements());
            other.closeNow(files);
        }
    }

    /// Older libraries go on with a pool that was told nothing.
    @Test
    void onlyWhatIsSaidIsAFeature() throws IOException {
        make();
        try (Pool pool = Pool.open(dir, SMALL)) {
            pool.place(Map.of());
            pool.place("Thing", Map.of());
            assertFalse(Feature.PLACEMENTS.isIn(pool.store().pmem()));
            pool.place("Thing", Map.of("text", DISK));
            assertTrue(Feature.PLACEMENTS.isIn(pool.store().pmem()));
        }
    }

    /// A thread that has found a value to move, as the balancer does in the background, leaves it
    /// where the pool has been told to have it meanwhile.
    @Test
    void whatIsFoundBeforeAPlacementDoesNotMoveAfterIt() throws IOException {
        make();
        try (Pool pool = Pool.open(dir, SMALL)) {
            Migrator.Goal toPmem =
                    new Migrator.Goal() {
                        private boolean told;

                        @Override
                        public boolean wants(Buffers.Place place, List<Medium> tiers) {
                            if (!told) {
                                told = true;
                                pool.place("Thing", Map.of("image", DISK));
                            }
                            return place.disk() >= 0;
                        }

                        @Override
                        public long put(Buffers.Place place, List<Medium> tiers, byte[] bytes) {
                            return pool.buffers().put(Medium.named(PMEM), bytes);
                        }
                    };
            assertEquals(
                    THINGS - 1,
                    new Migrator(pool).step(0, toPmem).values(),
                    "those that were found later");
            assertEquals(1, new Migrator(pool).step(0, toPmem).values());
            mustBeWhole(pool);
        }
    }
}
