package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.GoldenPool.Grouped;
import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Store;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Fields that share a slot hold what fields with slots of their own hold.
class GroupTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    private static final int ROUNDS = 20_000;

    /// Two numbers that share a buffer.
    private static final ObjectType<AnyHandle> OTHER = pair();

    private static ObjectType<AnyHandle> pair() {
        return ObjectType.of(
                "Other",
                AnyHandle.class,
                AnyHandle::new,
                List.of(),
                FieldSpec.of("one", FieldKind.LONG).on(StorageTier.DISK).inGroup(),
                FieldSpec.of("other", FieldKind.LONG).on(StorageTier.DISK).inGroup());
    }

    @TempDir(factory = InMemory.class)
    Path dir;

    private static ObjectType<AnyHandle> type(FieldSpec... fields) {
        return ObjectType.of("Thing", AnyHandle.class, AnyHandle::new, List.of(), fields);
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
            AnyHandle thing = pool.create(GroupModelTest.builds().getFirst());
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
            ObjectType<AnyHandle> type = GroupModelTest.builds().get(2);
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
    void anObjectThatIsSetAndDeletedIsGone() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            ObjectType<AnyHandle> type = GroupModelTest.builds().getFirst();
            AnyHandle thing = pool.create(type);
            AnyHandle other = pool.create(type);
            pool.root("thing", type).set(thing);
            thing.setTogether(() -> {
                other.fill(2);
                other.delete();
                thing.fill(3);
            });
            assertFalse(other.isAlive());
            assertEquals(
                    GoldenPoolTest.comparable(GoldenPool.value(thing.spec(0), 3)), thing.get(0));
            assertEquals(Map.of(), pool.check().leaked());
            assertThrows(
                    StaleReferenceException.class,
                    () ->
                            thing.setTogether(() -> {
                                thing.delete();
                                thing.fill(4);
                            }));
            assertTrue(thing.isAlive(), "rolled back");
        }
    }

    @Test
    void aCursorsHandleSetsEachObjectItWasLedTo() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle total = pool.create(type(FieldSpec.of("total", FieldKind.LONG)));
            for (long i = 0; i < 5; i++) {
                AnyHandle thing = pool.create(OTHER);
                thing.set(0, i);
                thing.set(1, 100 + i);
            }
            total.setTogether(() -> {
                Cursor<AnyHandle> cursor = pool.cursor(OTHER);
                long sum = 0;
                while (cursor.next()) {
                    AnyHandle thing = cursor.get();
                    sum += (Long) Objects.requireNonNull(thing.get(0));
                    thing.set(0, (Long) thing.get(0) + 1000);
                }
                total.set(0, sum);
            });
            Cursor<AnyHandle> cursor = pool.cursor(OTHER);
            for (long i = 0; cursor.next(); i++) {
                assertEquals(Map.of("one", 1000 + i, "other", 100 + i), cursor.get().all());
            }
            assertEquals(10L, total.get(0));
        }
    }

    @Test
    void aHandleKeepsNothingWhenNoncesBeginAnew() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle writer = pool.create(OTHER);
            AnyHandle filler = pool.create(type(FieldSpec.of("number", FieldKind.LONG)));
            AnyHandle reader = pool.object(OTHER, writer.reference());
            writer.set(0, 1L);
            writer.set(1, 1L);
            long nonce = pool.store().word(writer.place(0)) >>> 8;
            commitUntil(filler, nonce - 20);
            assertEquals(1L, reader.get(0));
            writer.set(0, 2L);
            commitUntil(filler, nonce);
            // To the first value's place, and with its nonce.
            writer.set(0, 3L);
            assertEquals(3L, reader.get(0));
            reader.set(1, 77L);
            assertEquals(3L, pool.object(OTHER, writer.reference()).get(0));
        }
    }

    /// Commits until the next one has this nonce.
    private static void commitUntil(AnyHandle filler, long nonce) {
        Store store = filler.pool().store();
        while ((nonce - (store.sequence() >>> 1) & 0xffff) != 0) {
            filler.set(0, store.sequence());
        }
    }

    @Test
    void aHandleThatReadsWhileAnotherThreadWritesKeepsTheRightValue() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle writer = pool.create(OTHER);
            AnyHandle reader = pool.object(OTHER, writer.reference());
            AtomicInteger begun = new AtomicInteger();
            AtomicInteger read = new AtomicInteger();
            CompletableFuture<Void> reading =
                    CompletableFuture.runAsync(() -> {
                        for (int round = 1; round <= ROUNDS; round++) {
                            while (begun.get() < round) {
                                Thread.onSpinWait();
                            }
                            long value = (Long) Objects.requireNonNull(reader.get(0));
                            assertTrue(value == 0 || value == 6);
                            read.set(round);
                        }
                    });
            try {
                for (int round = 1; round <= ROUNDS; round++) {
                    // The handle keeps another value than that of the slot, which is null.
                    writer.set(0, 5L);
                    assertEquals(5L, reader.get(0));
                    writer.set(0, 0L);
                    begun.set(round);
                    writer.set(0, 6L);
                    while (read.get() < round && !reading.isDone()) {
                        Thread.onSpinWait();
                    }
                    writer.set(0, 0L);
                    assertEquals(0L, reader.get(0));
                }
            } finally {
                begun.set(ROUNDS);
                reading.join();
            }
        }
    }

    @Test
    void textsAreComparedWithTheirFieldsValueOnly() throws IOException {
        for (StorageTier[] tiers :
                new StorageTier[][] {{StorageTier.DISK}, {StorageTier.PMEM, StorageTier.DISK}}) {
            ObjectType<AnyHandle> type =
                    type(
                            FieldSpec.of("flag", FieldKind.BOOLEAN).on(tiers).inGroup(),
                            FieldSpec.of("text", FieldKind.STRING).on(tiers).orNull().inGroup());
            try (Pool pool = Pool.open(dir, SMALL)) {
                AnyHandle thing = pool.create(type);
                assertTrue(thing.equalsString(1, -1, null));
                for (String text : List.of("a", "Elm Street 5", "")) {
                    thing.set(1, text);
                    assertTrue(thing.equalsString(1, -1, text));
                    assertFalse(thing.equalsString(1, -1, text + "b"));
                    assertFalse(thing.equalsString(1, -1, null));
                }
            }
        }
    }

    @Test
    void aNumberThatWasZeroIsNotNullLater() throws IOException {
        FieldSpec other = FieldSpec.of("other", FieldKind.INT).on(StorageTier.DISK).inGroup();
        FieldSpec one = FieldSpec.of("one", FieldKind.INT).on(StorageTier.DISK).inGroup();
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(type(one, other));
            thing.set(0, 0);
            AnyHandle later = pool.object(type(one.orNull(), other), thing.reference());
            assertEquals(0, later.get(0));
            later.set(1, 5);
            assertEquals(0, later.get(0));
        }
    }

    @Test
    void settersRunOnceAlsoIfThereIsNoRoom() throws IOException {
        ObjectType<AnyHandle> spilled =
                type(
                        FieldSpec.of("bytes", FieldKind.BYTES)
                                .on(StorageTier.PMEM, StorageTier.DISK)
                                .orNull());
        ObjectType<DurableRecord> inPmem =
                ObjectType.of("InPmem", FieldSpec.of("bytes", FieldKind.BYTES).orNull());
        try (Pool pool = Pool.open(dir, SMALL.pmem(4 << 20))) {
            for (int i = 0; i < 20; i++) {
                pool.create(spilled).set(0, new byte[100_000]);
            }
            int[] runs = {0};
            int tries = 0;
            for (int made = 0; made < 4; tries++) {
                DurableRecord thing = pool.create(inPmem);
                try {
                    thing.setTogether(() -> {
                        runs[0]++;
                        thing.setArray(0, new byte[300_000]);
                    });
                    made++;
                } catch (PoolFullException expected) {
                    assertTrue(tries < 20);
                }
            }
            assertEquals(tries, runs[0]);
            assertTrue(tries > 4, "it was full once");
        }
    }

    @Test
    void damageOfAGroupIsFound() throws IOException {
        ObjectType<AnyHandle> type = GroupModelTest.builds().getFirst();
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

    @Test
    void whatIsNoValueOfAFieldIsFound() throws IOException {
        ObjectType<AnyHandle> type =
                type(
                        FieldSpec.of("flag", FieldKind.BOOLEAN)
                                .on(StorageTier.PMEM, StorageTier.DISK)
                                .inGroup(),
                        FieldSpec.of("text", FieldKind.STRING)
                                .on(StorageTier.PMEM, StorageTier.DISK)
                                .orNull()
                                .inGroup());
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(type);
            pool.root("thing", type).set(thing);
            for (String wrong : List.of("02 04000000 00616161", "01 04000000 07616161")) {
                setGroup(thing, 0, HexFormat.of().parseHex(wrong.replace(" ", "")));
                assertEquals(1, pool.check().problems().size(), wrong);
            }
            setGroup(thing, 0, HexFormat.of().parseHex("010400000000616161"));
            assertEquals(List.of(), pool.check().problems());
            assertEquals("aaa", thing.get(1));
        }
    }

    @Test
    void aDamagedGroupIsSetAnewAsAWhole() throws IOException {
        ObjectType<AnyHandle> type = GroupModelTest.builds().get(2);
        try (Pool pool = Pool.open(dir, SMALL)) {
            AnyHandle thing = pool.create(type);
            setGroup(thing, 0, new byte[20]);
            assertThrows(PoolDamagedException.class, () -> thing.set(0, true));
            assertThrows(
                    PoolDamagedException.class, () -> thing.setTogether(() -> thing.set(0, true)));
            thing.setTogether(() -> thing.fill(5));
            AnyHandle other = pool.create(type);
            other.fill(5);
            assertEquals(other.all(), thing.all());
        }
    }

    /// Sets the slot of a field's group to bytes that are no value of it.
    private static void setGroup(AnyHandle thing, int field, byte[] wrong) {
        Pool pool = thing.pool();
        long at = thing.place(field);
        pool.change(() -> {
            long old = pool.store().word(at);
            pool.store()
                    .putWord(thing.record(), at, pool.buffers().put(List.of(Medium.PMEM), wrong));
            pool.buffers().free(old);
            return true;
        });
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
            byte[] stored = pool.buffers().get(thing.place(2));
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
