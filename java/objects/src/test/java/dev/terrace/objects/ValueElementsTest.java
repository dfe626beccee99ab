package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableSet;
import dev.terrace.objects.collections.DurableSortedSet;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Region;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.UUID;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Values of the JDK's classes as elements, keys and values of collections.
class ValueElementsTest {
    private static boolean isAnnounced(Pool pool) {
        return Feature.VALUE_ELEMENTS.isIn(pool.store().pmem());
    }

    private static void isSound(Pool pool) {
        PoolReport report = pool.check();
        assertEquals(List.of(), report.problems());
        assertEquals(Map.of(), report.leaked());
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void allComeBackAndGoWhole(boolean withChecksums) {
        PoolOptions options = PoolOptions.defaults().extents(1 << 20);
        try (PoolDir dir = new PoolDir(withChecksums ? options.withPmemChecksums() : options)) {
            Pool pool = dir.pool();
            DurableList.create(pool, ElementType.STRING).delete();
            List<Long> used = pool.statistics().used();
            for (GoldenValues<?> values : GoldenValues.ALL) {
                values.make(pool);
                values.expect(pool);
            }
            isSound(pool);
            Pool again = dir.reopen();
            GoldenValues.ALL.forEach(values -> values.expect(again));
            again.compact();
            GoldenValues.ALL.forEach(values -> values.expect(again));
            GoldenValues.ALL.forEach(values -> values.delete(again));
            isSound(again);
            again.compact();
            // The list of roots keeps some of its room.
            assertTrue(again.statistics().used().getFirst() < used.getFirst() + 10_000);
            assertEquals(used.get(1), again.statistics().used().get(1));
        }
    }

    /// Libraries that do not know the types refuse a pool only if it may have some.
    @Test
    void aPoolSaysThatItHasSome() {
        try (PoolDir dir = new PoolDir()) {
            Pool pool = dir.pool();
            DurableMap.create(pool, ElementType.STRING, ElementType.LONG);
            assertFalse(isAnnounced(pool));
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                DurableMap.create(pool, ElementType.LONG, ElementType.INSTANT);
                                assertTrue(isAnnounced(pool));
                                throw new IllegalStateException();
                            }));
            assertTrue(isAnnounced(pool), "it is never taken back");
            assertTrue(isAnnounced(dir.reopen()));
        }
        for (Consumer<Pool> create :
                List.<Consumer<Pool>>of(
                        pool -> DurableTree.create(pool, ElementType.LOCAL_TIME, ElementType.LONG),
                        pool -> DurableMap.create(pool, ElementType.LONG, ElementType.LOCAL_TIME),
                        pool -> DurableSet.create(pool, ElementType.LOCAL_DATE))) {
            try (PoolDir dir = new PoolDir()) {
                create.accept(dir.pool());
                assertTrue(isAnnounced(dir.pool()));
            }
        }
    }

    private static DurableMap<UUID, BigDecimal> map(Pool pool) {
        return DurableMap.root(pool, "map", ElementType.UUID, ElementType.BIG_DECIMAL);
    }

    private static String look(Pool pool) {
        return pool.rootReference("map") == 0 ? "none" : new TreeMap<>(map(pool)).toString();
    }

    @Test
    void noPowerCutLeavesSomeThatThePoolDoesNotSay() {
        try (PoolRig rig = PoolRig.of(_ -> {})) {
            CrashHistory history =
                    CrashHistory.of(
                            rig,
                            pool -> {
                                DurableMap<UUID, BigDecimal> map = map(pool);
                                map.put(new UUID(1, 2), new BigDecimal("1.50"));
                                map.put(new UUID(1, 2), new BigDecimal("12345678901234567.50"));
                                map.put(new UUID(-1, 2), null);
                                map.remove(new UUID(1, 2));
                            },
                            ValueElementsTest::look);
            history.checkEachCrash(
                    rig,
                    found -> {
                        String state = look(found);
                        assertTrue(state.equals("none") || isAnnounced(found), state);
                        return state;
                    });
            assertEquals(6, history.states().size(), history.states()::toString);
        }
    }

    /// As `java.util` has it.
    @Test
    void decimalsOfOneValueAreOneKeyOnlyWhereOrderCounts() {
        BigDecimal two = new BigDecimal("2.0");
        BigDecimal longer = new BigDecimal("2.00");
        try (PoolDir dir = new PoolDir()) {
            Pool pool = dir.pool();
            DurableMap<BigDecimal, String> map =
                    DurableMap.create(pool, ElementType.BIG_DECIMAL, ElementType.STRING);
            map.put(two, "two");
            map.put(longer, "longer");
            assertEquals(Map.of(two, "two", longer, "longer"), map);
            assertNull(map.get(new BigDecimal("2")));
            DurableTree<BigDecimal, String> tree =
                    DurableTree.create(pool, ElementType.BIG_DECIMAL, ElementType.STRING);
            tree.put(two, "two");
            tree.put(longer, "longer");
            assertEquals(1, tree.size());
            assertEquals(two, tree.firstKey(), "the key stays");
            assertEquals("longer", tree.get(new BigDecimal("2")));
            assertEquals("longer", tree.remove(new BigDecimal("2.000")));
            DurableSet<BigDecimal> set = DurableSet.create(pool, ElementType.BIG_DECIMAL);
            assertTrue(set.addAll(List.of(two, longer)));
            assertEquals(2, set.size());
            DurableSortedSet<BigDecimal> sorted =
                    DurableSortedSet.create(pool, ElementType.BIG_DECIMAL);
            sorted.addAll(List.of(two, longer));
            assertEquals(1, sorted.size());
            DurableList<BigDecimal> list = DurableList.create(pool, ElementType.BIG_DECIMAL);
            list.addAll(List.of(two, longer));
            assertEquals(1, list.indexOf(longer));
            assertEquals(-1, list.indexOf(new BigDecimal("2")));
        }
    }

    @Test
    void theyLieWhereTheCollectionsTiersSay() {
        try (PoolDir dir = new PoolDir()) {
            Pool pool = dir.pool();
            DurableList<UUID> ids = DurableList.create(pool, ElementType.UUID, StorageTier.DISK);
            DurableList<LocalDate> days =
                    DurableList.create(pool, ElementType.LOCAL_DATE, StorageTier.DISK);
            long onDisk = pool.statistics().used().get(1);
            days.add(LocalDate.MAX);
            assertEquals(onDisk, pool.statistics().used().get(1), "a date lies in the node");
            ids.add(new UUID(3, 4));
            assertTrue(pool.statistics().used().get(1) > onDisk);
            assertEquals(new UUID(3, 4), ids.getFirst());
            ids.clear();
            assertEquals(onDisk, pool.statistics().used().get(1));
        }
    }

    @Test
    void otherTypesAreToldApart() {
        try (PoolDir dir = new PoolDir()) {
            Pool pool = dir.pool();
            DurableList.root(pool, "list", ElementType.UUID);
            SchemaMismatchException mismatch =
                    assertThrows(
                            SchemaMismatchException.class,
                            () -> DurableList.root(pool, "list", ElementType.INSTANT));
            assertEquals(
                    "this is a list of java.util.UUID, not a list of java.time.Instant",
                    mismatch.getMessage());
            @SuppressWarnings({"unchecked", "rawtypes"})
            Map<Object, Object> raw = (Map) map(pool);
            assertThrows(ClassCastException.class, () -> raw.put("no id", new BigDecimal("1")));
            assertThrows(ClassCastException.class, () -> raw.put(new UUID(1, 2), 1L));
            assertNull(raw.get("no id"));
            assertFalse(raw.containsKey(1L));
            assertEquals(Map.of(), raw);
        }
    }

    @Test
    void aDumpShowsThem() {
        try (PoolDir dir = new PoolDir()) {
            GoldenValues.ALL.forEach(values -> values.make(dir.pool()));
            Map<String, PoolDump.Reference> roots = new PoolDump(dir.pool(), 100).roots();
            for (GoldenValues<?> values : GoldenValues.ALL) {
                PoolDump.Reference list =
                        Objects.requireNonNull(
                                roots.get(GoldenValues.ROOTS + values.type() + ": list"));
                List<Object> shown = Objects.requireNonNull(list.elements()).first();
                assertEquals(values.sorted(), shown.subList(0, values.sorted().size()));
                PoolDump.Reference tree =
                        Objects.requireNonNull(
                                roots.get(GoldenValues.ROOTS + values.type() + ": tree"));
                List<Object> entries = Objects.requireNonNull(tree.elements()).first();
                for (int i = 0; i < values.sorted().size(); i++) {
                    assertEquals(
                            Arrays.asList(values.sorted().get(i), values.sorted().get(i)),
                            entries.subList(2 * i, 2 * i + 2));
                }
            }
        }
    }

    /// The word of the only element of a list that is a root.
    private static long elementAt(Pool pool, String root) {
        long record = References.recordOf(pool.rootReference(root));
        return (pool.store().word(record + 32) & -16) + 8;
    }

    /// The bytes of the only element of a list, as numbers of so many bytes.
    private static <E> List<Long> stored(Pool pool, ElementType<E> type, E value, int... widths) {
        DurableList.root(pool, type.name(), type).add(value);
        byte[] bytes = Objects.requireNonNull(pool.buffers().get(elementAt(pool, type.name())));
        ByteBuffer in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        List<Long> numbers = new ArrayList<>();
        for (int width : widths) {
            numbers.add(width == 4 ? in.getInt() : in.getLong());
        }
        assertFalse(in.hasRemaining());
        return numbers;
    }

    @Test
    void theyAreStoredAsTheFormatSays() {
        try (PoolDir dir = new PoolDir()) {
            Pool pool = dir.pool();
            assertEquals(List.of(-1L, 2L), stored(pool, ElementType.UUID, new UUID(-1, 2), 8, 8));
            assertEquals(
                    List.of(-1L, 999_999_993L),
                    stored(pool, ElementType.INSTANT, Instant.EPOCH.minusNanos(7), 8, 4));
            assertEquals(
                    List.of(-1L, 999_999_999L),
                    stored(pool, ElementType.DURATION, Duration.ofNanos(-1), 8, 4));
            assertEquals(
                    List.of(-1L, 86_399_999_999_999L),
                    stored(
                            pool,
                            ElementType.LOCAL_DATE_TIME,
                            LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_999),
                            8,
                            8));
            DurableList.root(pool, "days", ElementType.LOCAL_DATE).add(LocalDate.ofEpochDay(-3));
            assertEquals(2 * -3 + 1, pool.store().word(elementAt(pool, "days")));
            DurableList.root(pool, "times", ElementType.LOCAL_TIME).add(LocalTime.ofNanoOfDay(3));
            assertEquals(2 * 3 + 1, pool.store().word(elementAt(pool, "times")));
        }
    }

    /// Finds damage of the only element of a list, and undoes it.
    private static <E> void isFound(
            Pool pool, DurableList<E> list, long at, long word, boolean isRefused) {
        Region pmem = pool.store().pmem();
        long before = pmem.getLong(at);
        pmem.putLong(at, word);
        String said = pool.check().problems().toString();
        assertTrue(said.contains("java.") || said.contains("what is stored is no"), said);
        if (isRefused) {
            assertThrows(PoolDamagedException.class, list::getFirst);
        }
        pmem.putLong(at, before);
        assertEquals(List.of(), pool.check().problems());
    }

    private static long inline(int... bytes) {
        long slot = 1 | (long) bytes.length << 4;
        for (int i = 0; i < bytes.length; i++) {
            slot |= (bytes[i] & 0xffL) << 8 * (i + 1);
        }
        return slot;
    }

    @Test
    void damageIsFound() {
        try (PoolDir dir = new PoolDir()) {
            Pool pool = dir.pool();
            DurableList<LocalDate> days = DurableList.root(pool, "days", ElementType.LOCAL_DATE);
            DurableList<LocalTime> times = DurableList.root(pool, "times", ElementType.LOCAL_TIME);
            DurableList<Instant> instants = DurableList.root(pool, "instants", ElementType.INSTANT);
            DurableList<BigDecimal> sums = DurableList.root(pool, "sums", ElementType.BIG_DECIMAL);
            days.add(LocalDate.EPOCH);
            times.add(LocalTime.NOON);
            instants.add(Instant.EPOCH);
            sums.add(new BigDecimal("5"));
            long day = elementAt(pool, "days");
            isFound(pool, days, day, 2, true);
            isFound(pool, days, day, (LocalDate.MAX.toEpochDay() + 1) << 1 | 1, true);
            isFound(pool, days, day, (LocalDate.MIN.toEpochDay() - 1) << 1 | 1, true);
            isFound(pool, times, elementAt(pool, "times"), -1, true);
            long sum = elementAt(pool, "sums");
            assertEquals(inline(0, 5), pool.store().word(sum));
            // The scale takes more bytes than it needs, or there is no number behind it.
            isFound(pool, sums, sum, inline(-128, 0, 0, 0, 0, 5), false);
            isFound(pool, sums, sum, inline(0, 0, 5), false);
            isFound(pool, sums, sum, inline(0), true);
            isFound(pool, sums, sum, inline(-128, 0), true);
            long slot = pool.store().word(elementAt(pool, "instants"));
            long bytes = Objects.requireNonNull(Buffers.place(slot)).offset() + 16;
            // Seconds behind all that there are, and a second's nanoseconds and one more.
            isFound(pool, instants, bytes, Long.MAX_VALUE, true);
            isFound(pool, instants, bytes + 8, 1_000_000_000, false);
        }
    }
}
