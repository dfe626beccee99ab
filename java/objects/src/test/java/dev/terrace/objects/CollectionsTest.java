package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableArray;
import dev.terrace.objects.collections.DurableCollection;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.ConcurrentModificationException;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class CollectionsTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final String LONG = "a text that is longer than a slot holds ";

    private static <E> void comesBack(PoolRig rig, ElementType<E> type, List<E> elements) {
        Pool pool = rig.pool();
        DurableList<E> list = DurableList.create(pool, type);
        list.addAll(elements);
        list.add(null);
        DurableArray<E> array = DurableArray.create(pool, type, elements.size() + 1);
        DurableMap<Integer, E> map = DurableMap.create(pool, ElementType.INTEGER, type);
        DurableTree<Integer, E> tree = DurableTree.create(pool, ElementType.INTEGER, type);
        for (int i = 0; i < elements.size(); i++) {
            array.set(i, elements.get(i));
            map.put(i, elements.get(i));
            tree.put(i, elements.get(i));
        }
        for (int i = 0; i < elements.size(); i++) {
            for (Object found : Arrays.asList(list.get(i), array.get(i), map.get(i), tree.get(i))) {
                if (elements.get(i) instanceof byte[] bytes) {
                    assertArrayEquals(bytes, (byte[]) found);
                } else {
                    assertEquals(elements.get(i), found);
                }
            }
        }
        assertNull(list.getLast());
        assertNull(array.getLast());
    }

    @Test
    void everyElementTypeComesBack() {
        try (PoolRig rig = new PoolRig()) {
            comesBack(
                    rig,
                    ElementType.STRING,
                    List.of("", "a", "seven b", LONG, "\ud83d\ude00 \ud83d"));
            comesBack(rig, ElementType.BOOLEAN, List.of(true, false));
            comesBack(rig, ElementType.BYTE, List.of((byte) 0, Byte.MIN_VALUE, Byte.MAX_VALUE));
            comesBack(rig, ElementType.SHORT, List.of((short) 0, Short.MIN_VALUE, Short.MAX_VALUE));
            comesBack(rig, ElementType.CHARACTER, List.of('\0', 'x', '\uffff'));
            comesBack(
                    rig, ElementType.INTEGER, List.of(0, -1, Integer.MIN_VALUE, Integer.MAX_VALUE));
            comesBack(rig, ElementType.LONG, List.of(0L, -1L, Long.MIN_VALUE, Long.MAX_VALUE));
            comesBack(rig, ElementType.FLOAT, List.of(0f, -0f, Float.NaN, Float.MIN_VALUE));
            comesBack(
                    rig,
                    ElementType.DOUBLE,
                    List.of(0.0, -0.0, Double.NaN, Double.NEGATIVE_INFINITY));
            comesBack(rig, ElementType.BYTES, List.of(new byte[0], new byte[7], new byte[9000]));
            DurablePerson bob = DurablePerson.create(rig.pool());
            comesBack(
                    rig,
                    ElementType.of(DurablePerson.TYPE),
                    List.of(bob, DurablePerson.create(rig.pool())));
        }
    }

    @Test
    void objectsAreKeysAndElementsByIdentity() {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            DurablePerson bob = DurablePerson.create(pool);
            DurablePerson eve = DurablePerson.create(pool);
            DurableMap<DurablePerson, DurablePerson> friends =
                    DurableMap.create(
                            pool,
                            ElementType.of(DurablePerson.TYPE),
                            ElementType.of(DurablePerson.TYPE));
            friends.put(bob, eve);
            friends.put(eve, bob);
            assertEquals(eve, friends.get(bob));
            assertEquals(Map.of(bob, eve, eve, bob), friends);
            eve.delete();
            assertThrows(StaleReferenceException.class, () -> friends.get(bob));
            assertThrows(StaleReferenceException.class, () -> friends.put(bob, eve));
            friends.delete();
            assertTrue(bob.isAlive());
            try (PoolRig other = new PoolRig()) {
                DurableList<DurablePerson> list =
                        DurableList.create(other.pool(), ElementType.of(DurablePerson.TYPE));
                assertThrows(IllegalArgumentException.class, () -> list.add(bob));
            }
        }
    }

    @Test
    void whatCannotBeIsRefused() {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            ElementType<DurablePerson> people = ElementType.of(DurablePerson.TYPE);
            assertThrows(
                    IllegalArgumentException.class,
                    () -> DurableMap.create(pool, ElementType.BYTES, ElementType.LONG));
            assertThrows(
                    IllegalArgumentException.class,
                    () -> DurableTree.create(pool, people, ElementType.LONG));
            assertThrows(
                    IllegalArgumentException.class,
                    () -> DurableList.create(pool, ElementType.STRING, StorageTier.DRAM));
            assertThrows(
                    IllegalArgumentException.class,
                    () -> DurableArray.create(pool, ElementType.LONG, -1));
            DurableTree<Integer, Long> tree =
                    DurableTree.create(pool, ElementType.INTEGER, ElementType.LONG);
            assertThrows(NullPointerException.class, () -> tree.put(null, 1L));
            assertEquals(Map.of(), tree);
            assertEquals(1, DurableArray.root(pool, "array", ElementType.LONG, 1).size());
            assertThrows(
                    SchemaMismatchException.class,
                    () -> DurableArray.root(pool, "array", ElementType.LONG, 2));
        }
    }

    private static void assertMismatch(String message, Runnable open) {
        assertEquals(message, assertThrows(SchemaMismatchException.class, open::run).getMessage());
    }

    @Test
    void whatWasStoredAsSomethingElseIsNotOpened() {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            DurableMap.root(pool, "map", ElementType.STRING, ElementType.of(DurablePerson.TYPE));
            pool.root("bob", DurablePerson.TYPE).set(DurablePerson.create(pool));
            assertMismatch(
                    "this is a map from java.lang.String to dev.terrace.objects.Person, not a list"
                            + " of java.lang.Long",
                    () -> DurableList.root(pool, "map", ElementType.LONG));
            assertMismatch(
                    "this is a map from java.lang.String to dev.terrace.objects.Person,"
                            + " not a map from java.lang.String to dev.terrace.objects.Team",
                    () ->
                            DurableMap.root(
                                    pool,
                                    "map",
                                    ElementType.STRING,
                                    ElementType.of(DurableTeam.TYPE)));
            assertMismatch(
                    "this is an object, not an array of byte[]",
                    () -> DurableArray.root(pool, "bob", ElementType.BYTES, 1));
            assertThrows(
                    SchemaMismatchException.class,
                    () -> pool.root("map", DurablePerson.TYPE).get());
        }
    }

    @Test
    void whatIsDeletedIsNotFoundAgain() {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            long used = pool.statistics().used().get(0);
            DurableList<String> list = DurableList.create(pool, ElementType.STRING);
            DurableMap<String, String> map =
                    DurableMap.create(pool, ElementType.STRING, ElementType.STRING);
            DurableTree<String, String> tree =
                    DurableTree.create(pool, ElementType.STRING, ElementType.STRING);
            DurableArray<String> array = DurableArray.create(pool, ElementType.STRING, 2000);
            for (int i = 0; i < 2000; i++) {
                array.set(i, LONG + i);
                list.add(LONG + i);
                map.put(LONG + i, LONG);
                tree.put(LONG + i, LONG);
            }
            for (DurableCollection collection : List.of(list, map, tree, array)) {
                assertTrue(collection.isAlive());
                collection.delete();
                assertFalse(collection.isAlive());
                assertThrows(StaleReferenceException.class, collection::delete);
            }
            assertThrows(StaleReferenceException.class, () -> list.get(0));
            assertThrows(StaleReferenceException.class, () -> list.add("x"));
            assertThrows(StaleReferenceException.class, () -> map.get("x"));
            assertThrows(StaleReferenceException.class, () -> map.put("x", "x"));
            assertThrows(StaleReferenceException.class, tree::firstKey);
            assertThrows(StaleReferenceException.class, array::size);
            assertThrows(
                    StaleReferenceException.class,
                    () -> DurableList.at(pool, list.reference(), ElementType.STRING));
            assertEquals(Map.of(), pool.check().leaked());
            assertTrue(pool.statistics().used().get(0) < used + 1000, "all of it is free again");
        }
    }

    @Test
    void aFailedTransactionLeavesThemAsTheyWere() {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            DurableList<Long> list = DurableList.create(pool, ElementType.LONG);
            DurableMap<String, Long> map =
                    DurableMap.create(pool, ElementType.STRING, ElementType.LONG);
            list.add(1L);
            map.put("a", 1L);
            AtomicReference<DurableList<Long>> made = new AtomicReference<>();
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                for (long i = 0; i < 5000; i++) {
                                    list.add(0, i);
                                    map.put("key " + i, i);
                                }
                                assertEquals(5001, list.size());
                                assertEquals(4999L, map.get("key 4999"));
                                made.set(DurableList.create(pool, ElementType.LONG));
                                throw new IllegalStateException("on purpose");
                            }));
            assertEquals(List.of(1L), list);
            assertEquals(Map.of("a", 1L), map);
            assertFalse(made.get().isAlive());
            pool.transact(() -> {
                assertThrows(IndexOutOfBoundsException.class, () -> list.set(7, 1L));
                assertThrows(IndexOutOfBoundsException.class, () -> list.add(7, 1L));
                list.add(2L);
            });
            assertEquals(
                    List.of(1L, 2L), list, "a mistake in a call does not fail the transaction");
        }
    }

    @Test
    void anIteratorSeesWhatAnotherHandleHasDone() {
        try (PoolRig rig = new PoolRig()) {
            DurableList<Long> list = DurableList.root(rig.pool(), "list", ElementType.LONG);
            DurableList<Long> same = DurableList.root(rig.pool(), "list", ElementType.LONG);
            list.addAll(List.of(1L, 2L, 3L));
            assertEquals(List.of(1L, 2L, 3L), new ArrayList<>(same));
            Iterator<Long> elements = same.iterator();
            elements.next();
            list.add(4L);
            assertThrows(ConcurrentModificationException.class, elements::next);
        }
    }

    @Test
    void anObjectOwnsItsCollections() {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            DurableTeam team = DurableTeam.create(pool);
            pool.root("team", DurableTeam.TYPE).set(team);
            assertEquals("null null null", team.contents());
            team.setNames(List.of("Bob", LONG));
            team.setScores(Map.of("Bob", 7L));
            team.setYears(new TreeMap<>(Map.of(1999, LONG, 1969, "x")));
            assertEquals(
                    "[Bob, " + LONG + "] {Bob=7} {1969=x, 1999=" + LONG + "}", team.contents());
            DurableList<String> names = Objects.requireNonNull(team.getNames());
            names.add("Eve");
            team.setNames(names);
            assertFalse(names.isAlive());
            assertEquals(List.of("Bob", LONG, "Eve"), team.getNames());
            assertNotEquals(names.reference(), Objects.requireNonNull(team.getNames()).reference());
            assertEquals(
                    Map.of(
                            "dev.terrace.objects.Team",
                            1L,
                            "lists",
                            1L,
                            "maps",
                            1L,
                            "sorted maps",
                            1L),
                    pool.check().objects());
            DurableMap<String, Long> scores = Objects.requireNonNull(team.getScores());
            team.setScores(null);
            assertFalse(scores.isAlive());
            assertNull(team.getScores());
            DurableTree<Integer, String> years = Objects.requireNonNull(team.getYears());
            team.delete();
            assertFalse(years.isAlive());
            pool.root("team", DurableTeam.TYPE).set(null);
            assertEquals(Map.of(), pool.check().leaked());
        }
    }

    @Test
    void whatNoRootReachesIsFoundAndFreed() {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            DurableMap<Integer, String> lost =
                    DurableMap.create(pool, ElementType.INTEGER, ElementType.STRING);
            DurableList<DurablePerson> kept =
                    DurableList.root(pool, "kept", ElementType.of(DurablePerson.TYPE));
            kept.add(DurablePerson.create(pool));
            for (int i = 0; i < 100; i++) {
                lost.put(i, LONG);
            }
            assertEquals(100L, pool.check().leaked().get("strings and arrays"));
            pool.collect();
            assertFalse(lost.isAlive());
            assertEquals(0, Objects.requireNonNull(kept.get(0)).getAge());
            assertEquals(Map.of(), pool.check().leaked());
        }
    }

    /// Damages any bytes of collections: the damage is reported, or nothing reads those bytes; no
    /// crash, no walk without an end.
    @Test
    void damageIsReportedOrDoesNoHarm() throws IOException {
        try (PoolDir dir = new PoolDir(SMALL)) {
            DurableList<Long> list = DurableList.root(dir.pool(), "numbers", ElementType.LONG);
            for (int i = 0; i < 1500; i++) {
                list.add((long) i);
                map(dir.pool()).put("key " + i, null);
                tree(dir.pool()).put(i, i % 10 == 0 ? LONG : null);
            }
            dir.reopen(SMALL.toRead());
            Path file = dir.directory().resolve("pool");
            byte[] sound = Files.readAllBytes(file);
            Random random = new Random(1);
            int reported = 0;
            for (int round = 0; round < 300; round++) {
                int at = 140_000 + random.nextInt(600_000);
                while (sound[at] == 0) {
                    at++;
                }
                try (RandomAccessFile bytes = new RandomAccessFile(file.toFile(), "rw")) {
                    bytes.seek(at);
                    bytes.write(sound[at] ^ 1 << random.nextInt(8));
                    reported += dir.pool().check().problems().isEmpty() ? 0 : 1;
                    bytes.seek(at);
                    bytes.write(sound[at]);
                } catch (TerraceException e) {
                    reported++;
                }
            }
            assertTrue(
                    reported > 0,
                    "most bytes are elements, which any bytes may be; the others are looked at");
        }
    }

    /// What fills a pool, one operation after the other.
    record Filling(String name, Consumer<Pool> prepare, Consumer<Pool> work) {
        @Override
        public String toString() {
            return name;
        }
    }

    static Stream<Filling> fillings() {
        byte[] large = new byte[40_000];
        return Stream.of(
                new Filling("list", pool -> {}, pool -> list(pool).add(large)),
                new Filling("insert", pool -> {}, pool -> list(pool).add(0, large)),
                new Filling(
                        "set",
                        pool -> list(pool).addAll(Arrays.asList(new byte[500][])),
                        pool -> {
                            int next = list(pool).indexOf(null);
                            list(pool).set(next, large);
                        }),
                new Filling(
                        "add all", pool -> {}, pool -> list(pool).addAll(List.of(large, large))),
                new Filling(
                        "map",
                        pool -> {},
                        pool -> map(pool).put(LONG + map(pool).size(), LONG.repeat(400))),
                new Filling(
                        "tree",
                        pool -> {},
                        pool -> tree(pool).put(tree(pool).size(), LONG.repeat(400))),
                new Filling(
                        "array",
                        pool -> {},
                        pool -> DurableArray.create(pool, ElementType.LONG, 5000)),
                new Filling(
                        "field",
                        CollectionsTest::makeTeam,
                        pool -> {
                            DurableTeam team =
                                    Objects.requireNonNull(
                                            pool.root("team", DurableTeam.TYPE).get());
                            List<String> more =
                                    new ArrayList<>(Objects.requireNonNull(team.getNames()));
                            more.add(LONG.repeat(1000));
                            team.setNames(more);
                        }));
    }

    private static void makeTeam(Pool pool) {
        DurableTeam team = DurableTeam.create(pool);
        team.setNames(List.of("Bob"));
        pool.root("team", DurableTeam.TYPE).set(team);
    }

    private static DurableList<byte[]> list(Pool pool) {
        return DurableList.root(pool, "list", ElementType.BYTES);
    }

    private static DurableMap<String, String> map(Pool pool) {
        return DurableMap.root(pool, "map", ElementType.STRING, ElementType.STRING);
    }

    private static DurableTree<Integer, String> tree(Pool pool) {
        return DurableTree.root(pool, "tree", ElementType.INTEGER, ElementType.STRING);
    }

    private static String contents(Pool pool) {
        DurableTeam team = pool.root("team", DurableTeam.TYPE).get();
        return list(pool).stream().map(bytes -> bytes == null ? -1 : bytes.length).toList()
                + " "
                + new TreeMap<>(map(pool))
                + " "
                + tree(pool)
                + " "
                + (team == null ? null : team.contents());
    }

    @ParameterizedTest
    @MethodSource("fillings")
    void aFullPoolLeavesThemAsTheyWere(Filling filling) {
        try (PoolDir dir = new PoolDir(SMALL.pmem(2 << 20))) {
            Pool pool = dir.pool();
            list(pool);
            map(pool);
            tree(pool);
            filling.prepare().accept(pool);
            String[] before = {""};
            assertThrows(
                    PoolFullException.class,
                    () ->
                            pool.transact(() -> {
                                while (true) {
                                    filling.work().accept(pool);
                                }
                            }));
            assertThrows(
                    PoolFullException.class,
                    () -> {
                        while (true) {
                            before[0] = contents(pool);
                            filling.work().accept(pool);
                        }
                    });
            assertEquals(before[0], contents(pool));
            assertEquals(List.of(), pool.check().problems());
            list(pool).clear();
            map(pool).clear();
            tree(pool).clear();
            pool.collect();
            map(pool).put("there is", "room again");
            assertEquals("room again", map(pool).get("there is"));
        }
    }

    @Test
    void readersOfAPoolThatIsOnlyReadSeeAll() {
        try (PoolDir dir = new PoolDir(SMALL)) {
            map(dir.pool()).put("a", LONG);
            list(dir.pool()).add(new byte[100]);
            Pool read = dir.reopen(SMALL.toRead());
            assertEquals(Map.of("a", LONG), map(read));
            assertEquals(1, list(read).size());
            assertThrows(PoolReadOnlyException.class, () -> map(read).put("b", "c"));
            assertThrows(PoolReadOnlyException.class, () -> tree(read));
        }
    }

    @Test
    void aClosedPoolSaysSo() {
        try (PoolDir dir = new PoolDir(SMALL)) {
            DurableMap<String, String> map = map(dir.pool());
            DurableList<byte[]> list = list(dir.pool());
            dir.reopen();
            assertThrows(PoolClosedException.class, () -> map.get("a"));
            assertThrows(PoolClosedException.class, () -> map.put("a", "b"));
            assertThrows(PoolClosedException.class, () -> list.get(0));
            assertThrows(PoolClosedException.class, list::iterator);
        }
    }

    @Test
    void otherThreadsSeeWholeTransactions() throws Exception {
        try (PoolRig rig = new PoolRig()) {
            Pool pool = rig.pool();
            DurableMap<Integer, Long> map =
                    DurableMap.create(pool, ElementType.INTEGER, ElementType.LONG);
            DurableTree<Integer, Long> tree =
                    DurableTree.create(pool, ElementType.INTEGER, ElementType.LONG);
            DurableList<Long> list = DurableList.create(pool, ElementType.LONG);
            AtomicReference<Throwable> failure = new AtomicReference<>();
            Thread writer =
                    new Thread(() -> {
                        for (int i = 0; i < 3000; i++) {
                            long number = i;
                            pool.transact(() -> {
                                list.add(number);
                                map.put((int) number, number);
                                tree.put((int) number, number);
                                if (number % 7 == 0) {
                                    list.removeFirst();
                                    tree.pollFirstEntry();
                                    map.remove((int) (number / 7));
                                }
                            });
                        }
                    });
            writer.setUncaughtExceptionHandler((_, thrown) -> failure.set(thrown));
            writer.start();
            boolean more = true;
            while (more) {
                more = writer.isAlive();
                List<Object> seen =
                        pool.read(() ->
                                List.of(
                                        list.size(),
                                        map.size(),
                                        tree.size(),
                                        list.isEmpty() ? -1L : list.getLast(),
                                        tree.isEmpty() ? -1L : tree.lastEntry().getValue(),
                                        List.copyOf(list),
                                        List.copyOf(tree.values())));
                assertEquals(seen.get(0), seen.get(1));
                assertEquals(seen.get(0), seen.get(2));
                assertEquals(seen.get(3), seen.get(4));
                assertEquals(seen.get(5), seen.get(6));
                for (long key = 0; key < 3000; key += 100) {
                    Long value = map.get((int) key);
                    assertTrue(value == null || value == key, () -> value + " is not its value");
                }
            }
            writer.join();
            assertNull(failure.get(), () -> "the writer failed: " + failure.get());
            assertNotNull(map.get(2999));
        }
    }
}
