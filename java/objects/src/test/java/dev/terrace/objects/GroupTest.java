package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.GoldenPool.Grouped;
import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Fields that share a slot hold what fields with slots of their own hold.
class GroupTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int SEEDS = Boolean.getBoolean("terrace.long") ? 300 : 12;
    private static final int STEPS = 150;
    private static final List<StorageTier> DISK = List.of(StorageTier.DISK);
    private static final List<StorageTier> PMEM = List.of(StorageTier.PMEM);

    @TempDir(factory = InMemory.class)
    Path dir;

    /// Builds of the class: its fields in two groups, apart, in one group, on other tiers, and some
    /// of them within the record.
    private static final List<UnaryOperator<FieldSpec>> BUILDS =
            List.of(
                    FieldSpec::inGroup,
                    field -> field,
                    field -> field.on(StorageTier.DISK).inGroup(),
                    field -> field.on(StorageTier.REMOTE, StorageTier.DISK).inGroup(),
                    field ->
                            field.name().startsWith("near_")
                                    ? field.on(StorageTier.PMEM)
                                    : field.inGroup());

    private static List<ObjectType<AnyHandle>> builds() {
        return BUILDS.stream()
                .map(build ->
                        ObjectType.of(
                                "Thing",
                                AnyHandle.class,
                                AnyHandle::new,
                                List.of(),
                                Grouped.specs(build)))
                .toList();
    }

    private static ObjectType<AnyHandle> type(FieldSpec... fields) {
        return ObjectType.of("Thing", AnyHandle.class, AnyHandle::new, List.of(), fields);
    }

    private static @Nullable Object random(FieldSpec field, Random random) {
        if (field.nullable() && random.nextInt(4) == 0) {
            return null;
        }
        return field.kind() == FieldKind.STRING
                ? "\u65e5".repeat(random.nextInt(3)) + "x".repeat(random.nextInt(60))
                : GoldenPool.value(field, random.nextInt(20));
    }

    /// A pool, and what its objects must hold.
    private final class Run {
        final Random random;
        final List<ObjectType<AnyHandle>> builds = builds();
        final RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
        final Map<Long, Map<String, @Nullable Object>> expected = new LinkedHashMap<>();
        final Map<Long, AnyHandle> handles = new HashMap<>();
        ObjectType<AnyHandle> type = builds.getFirst();
        Pool pool;

        Run(long seed) throws IOException {
            random = new Random(seed);
            pool = open();
        }

        Pool open() throws IOException {
            return Pool.open(dir, SMALL.remote(segments));
        }

        /// A handle of some object: one that has been used before, or a new one.
        AnyHandle any() {
            List<Long> all = List.copyOf(expected.keySet());
            long reference = all.get(random.nextInt(all.size()));
            return random.nextBoolean()
                    ? pool.object(type, reference)
                    : handles.computeIfAbsent(reference, _ -> pool.object(type, reference));
        }

        void set(AnyHandle thing, int field, Map<String, @Nullable Object> values) {
            Object value = random(thing.spec(field), random);
            thing.set(field, value);
            values.put(thing.spec(field).name(), GoldenPoolTest.comparable(value));
        }

        /// Sets some fields.
        void setSome(AnyHandle thing, Map<String, @Nullable Object> values) {
            for (int i = random.nextInt(12); i >= 0; i--) {
                int field = random.nextInt(thing.count());
                set(thing, field, values);
                assertEquals(values.get(thing.spec(field).name()), thing.get(field));
            }
        }

        void step() throws IOException {
            int what = expected.isEmpty() ? 0 : random.nextInt(12);
            switch (what) {
                case 0 -> {
                    AnyHandle thing = pool.create(type);
                    pool.root("thing " + thing.reference(), type).set(thing);
                    expected.put(thing.reference(), thing.all());
                }
                case 1, 2, 3 -> {
                    AnyHandle thing = any();
                    set(thing, random.nextInt(thing.count()), of(thing));
                }
                case 4, 5, 6 -> {
                    AnyHandle thing = any();
                    thing.setTogether(() -> setSome(thing, of(thing)));
                }
                case 7 -> {
                    AnyHandle thing = any();
                    Map<String, @Nullable Object> values = new LinkedHashMap<>(of(thing));
                    assertThrows(
                            IllegalStateException.class,
                            () ->
                                    thing.setTogether(() -> {
                                        setSome(thing, values);
                                        throw new IllegalStateException("on purpose");
                                    }));
                }
                case 8 -> {
                    AnyHandle one = any();
                    AnyHandle other = any();
                    one.setTogether(() -> {
                        setSome(one, of(one));
                        other.setTogether(() -> setSome(other, of(other)));
                        setSome(one, of(one));
                    });
                }
                case 9 -> {
                    AnyHandle thing = any();
                    expected.remove(thing.reference());
                    pool.root("thing " + thing.reference(), type).set(null);
                    thing.delete();
                }
                case 10 -> {
                    pool.close();
                    handles.clear();
                    type = builds.get(random.nextInt(builds.size()));
                    pool = open();
                }
                default -> {
                    pool.retier(type);
                    pool.compact();
                }
            }
        }

        private Map<String, @Nullable Object> of(AnyHandle thing) {
            return Objects.requireNonNull(expected.get(thing.reference()));
        }

        void check() throws IOException {
            for (boolean readOnly : new boolean[] {false, true}) {
                expected.forEach((reference, values) ->
                        assertEquals(values, pool.object(type, reference).all()));
                assertEquals(List.of(), pool.check().problems());
                assertEquals(Map.of(), pool.check().leaked());
                pool.close();
                PoolOptions options = SMALL.remote(segments);
                pool = Pool.open(dir, readOnly ? options : options.toRead());
            }
        }
    }

    @Test
    void theyHoldWhatFieldsApartHold() throws IOException {
        for (int seed = 0; seed < SEEDS; seed++) {
            Run run = new Run(seed);
            try {
                for (int step = 0; step < STEPS; step++) {
                    run.step();
                }
                run.check();
            } catch (AssertionError | RuntimeException e) {
                throw new AssertionError("with seed " + seed, e);
            } finally {
                run.pool.close();
            }
            SharedMemory.delete(dir);
            Files.createDirectory(dir);
        }
    }

    private static long onDisk(Pool pool) {
        return pool.statistics().used().get(1);
    }

    @Test
    void aGroupTakesOneSlotAndOneBuffer() throws IOException {
        FieldSpec[] fields = new FieldSpec[22];
        for (int i = 0; i < fields.length; i++) {
            fields[i] =
                    FieldSpec.of("bits" + i, FieldKind.LONGS)
                            .ofLength(2)
                            .on(StorageTier.DISK)
                            .inGroup();
        }
        assertEquals(32, Layout.of(List.of(fields)).bytes(), "header, extension, slot");
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(type(fields));
            long before = onDisk(pool);
            thing.setTogether(() -> {
                for (int i = 0; i < fields.length; i++) {
                    thing.set(i, new long[] {i, -i});
                }
            });
            assertEquals(StoredSize.onDisk(fields.length * 16), onDisk(pool) - before);
            assertTrue(Feature.GROUPS.isIn(pool.store().pmem()));
        }
    }

    @Test
    void aGroupOfZerosTakesNoBuffer() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            ObjectType<AnyHandle> type =
                    type(
                            FieldSpec.of("one", FieldKind.LONG).on(StorageTier.DISK).inGroup(),
                            FieldSpec.of("other", FieldKind.STRING)
                                    .on(StorageTier.DISK)
                                    .orNull()
                                    .inGroup());
            AnyHandle thing = pool.create(type);
            thing.set(0, 5L);
            thing.set(1, "");
            long before = onDisk(pool);
            thing.set(0, 0L);
            assertEquals("", thing.get(1), "an empty text is not null");
            thing.set(1, null);
            assertTrue(onDisk(pool) < before);
            assertEquals(0L, thing.get(0));
            assertNull(thing.get(1));
        }
    }

    @Test
    void aPoolWithoutGroupsHasNotTheFeature() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            pool.create(type(FieldSpec.of("one", FieldKind.LONG).on(StorageTier.DISK)));
            assertFalse(Feature.GROUPS.isIn(pool.store().pmem()));
        }
    }

    @Test
    void othersSeeNothingOfWhatIsBeingSet() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(builds().getFirst());
            thing.fill(1);
            Map<String, @Nullable Object> before = thing.all();
            thing.setTogether(() -> {
                thing.fill(2);
                assertEquals(before, CompletableFuture.supplyAsync(thing::all).join());
            });
            assertFalse(before.equals(thing.all()));
        }
    }

    @Test
    void aHandleKeepsNothingOfATransactionThatIsRolledBack() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            ObjectType<AnyHandle> type = builds().get(2);
            AnyHandle thing = pool.create(type);
            thing.fill(1);
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                thing.setTogether(() -> thing.fill(2));
                                assertFalse(thing.all().isEmpty());
                                throw new IllegalStateException("on purpose");
                            }));
            // To the same places, after as many commits: the slots are the same.
            AnyHandle other = pool.object(type, thing.reference());
            other.setTogether(() -> other.fill(3));
            assertEquals(other.all(), thing.all());
        }
    }

    @Test
    void anObjectThatIsDeletedWhileItIsSetIsNotSet() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(builds().getFirst());
            thing.fill(1);
            Map<String, @Nullable Object> before = thing.all();
            assertThrows(
                    StaleReferenceException.class,
                    () ->
                            thing.setTogether(() -> {
                                thing.fill(2);
                                thing.delete();
                            }));
            assertEquals(before, thing.all());
            pool.root("thing", builds().getFirst()).set(thing);
            assertEquals(Map.of(), pool.check().leaked());
        }
    }

    @Test
    void damageOfAGroupIsFound() throws IOException {
        ObjectType<AnyHandle> type = builds().getFirst();
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(type);
            thing.fill(1);
            pool.root("thing", type).set(thing);
            int near = Grouped.TYPE.fields().size() - 1;
            for (byte[] wrong : List.of(new byte[20], new byte[500], new byte[10_000])) {
                Arrays.fill(wrong, (byte) -1);
                setGroup(thing, near, wrong);
                for (int i = 0; i < thing.count(); i++) {
                    int field = i;
                    if (thing.spec(i).tiers().equals(thing.spec(near).tiers())) {
                        assertThrows(PoolDamagedException.class, () -> thing.get(field));
                    } else {
                        assertEquals(
                                GoldenPoolTest.comparable(GoldenPool.value(thing.spec(i), 1)),
                                thing.get(i));
                    }
                }
                List<String> problems = pool.check().problems();
                assertTrue(
                        problems.size() == 1 && problems.getFirst().contains("the group of field"),
                        problems::toString);
            }
        }
    }

    /// Sets the slot of a field's group to bytes that are no value of it.
    private static void setGroup(AnyHandle thing, int field, byte[] wrong) {
        Pool pool = thing.pool();
        long at = thing.record() + thing.mapping().offset(field);
        pool.change(() -> {
            long old = pool.store().word(at);
            pool.store()
                    .putWord(thing.record(), at, pool.buffers().put(List.of(Medium.PMEM), wrong));
            pool.buffers().free(old);
            return true;
        });
    }

    @Test
    void aGroupIsPlacedAsAWhole() throws IOException {
        ObjectType<AnyHandle> type =
                type(
                        FieldSpec.of("one", FieldKind.LONG).on(StorageTier.DISK).inGroup(),
                        FieldSpec.of("other", FieldKind.LONG).on(StorageTier.DISK).inGroup(),
                        FieldSpec.of("text", FieldKind.STRING).on(StorageTier.DISK).orNull());
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(type);
            thing.fill(3);
            IllegalArgumentException refused =
                    assertThrows(
                            IllegalArgumentException.class,
                            () -> pool.place(Map.of("Thing", Map.of("one", PMEM, "text", PMEM))));
            assertEquals(
                    "fields one and other of Thing share a buffer: name all of [one, other] with"
                            + " the same tiers, or none",
                    refused.getMessage());
            assertEquals(Map.of(), pool.placements());
            assertThrows(
                    IllegalArgumentException.class,
                    () -> pool.place(Map.of("Thing", Map.of("one", PMEM, "other", DISK))));
            Map<String, @Nullable Object> before = thing.all();
            long disk = onDisk(pool);
            pool.place(Map.of("Thing", Map.of("one", PMEM, "other", PMEM)));
            assertEquals(StoredSize.onDisk(16), disk - onDisk(pool), "it has moved");
            assertEquals(before, thing.all());
            thing.set(1, 77L);
            assertEquals(StoredSize.onDisk(16), disk - onDisk(pool), "it stays there");
            pool.place(Map.of("Thing", Map.of()));
            assertEquals(disk, onDisk(pool));
            assertEquals(77L, thing.get(1));
        }
    }

    @Test
    void theExampleOfThePageIsStoredSo() throws IOException {
        UnaryOperator<FieldSpec> inGroup = field -> field.on(StorageTier.DISK).inGroup();
        ObjectType<AnyHandle> type =
                type(
                        inGroup.apply(FieldSpec.of("zip", FieldKind.INT)),
                        inGroup.apply(FieldSpec.of("floor", FieldKind.INT).orNull()),
                        inGroup.apply(FieldSpec.of("town", FieldKind.STRING).orNull()),
                        inGroup.apply(FieldSpec.of("lift", FieldKind.BOOLEAN)));
        String page = Files.readString(Path.of("..", "docs", "POOL-FORMAT.md"));
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(type);
            thing.setTogether(() -> {
                thing.set(0, 7);
                thing.set(2, "Oslo");
                thing.set(3, true);
            });
            byte[] stored = pool.buffers().get(thing.record() + thing.mapping().offset(2));
            String example = page.substring(page.indexOf("00 07000000"));
            assertEquals(
                    example.substring(0, example.indexOf('\n')).replace(" ", ""),
                    HexFormat.of().formatHex(Objects.requireNonNull(stored)));
        }
    }

    @Test
    void whatCannotBeInAGroupIsRefused() {
        for (FieldSpec field :
                List.of(
                        FieldSpec.of("inline", FieldKind.INT),
                        FieldSpec.of("row", FieldKind.INTS).ofLength(3),
                        FieldSpec.of("bytes", FieldKind.BYTES).on(StorageTier.DISK),
                        FieldSpec.of("memory", FieldKind.INT).on(StorageTier.DRAM),
                        FieldSpec.of("other", FieldKind.REFERENCE).to("Thing").orNull())) {
            assertThrows(IllegalArgumentException.class, field::inGroup, field.name());
        }
    }
}
