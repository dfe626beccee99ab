package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableArray;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Every state that a power cut may leave of what programs do with collections is one between two
/// commits, and sound.
class CollectionCrashTest {
    /// More than is freed in one transaction.
    private static final int LARGE = 1100;

    private static final int FEW = 8;
    private static final String LONG = "a text that is longer than a slot holds ";

    /// Something that programs do, and how many elements are there before.
    record Step(String name, int elements, Consumer<Pool> work) {
        @Override
        public String toString() {
            return name + ", of " + elements;
        }

        /// How many elements a collection has: many only where they matter, since each state is
        /// looked at.
        private int count(String collection) {
            boolean isConcerned = name.startsWith(collection) || !name.contains(":");
            return isConcerned ? elements : Math.min(elements, FEW);
        }

        void prepare(Pool pool) {
            pool.transact(() -> {
                list(pool).addAll(texts(count("list")));
                Map<String, Long> map = map(pool);
                Map<Integer, String> tree = tree(pool);
                DurableArray<Double> array = array(pool);
                for (int i = 0; i < count("map"); i++) {
                    map.put(text(i), (long) i);
                }
                for (int i = 0; i < count("tree"); i++) {
                    tree.put(2 * i, text(i));
                }
                for (int i = 0; i < array.size(); i++) {
                    array.set(i, i / 2.0);
                }
                DurableTeam team = DurableTeam.create(pool);
                pool.root("team", DurableTeam.TYPE).set(team);
                team.setNames(texts(count("field")));
                Map<String, Long> scores = new HashMap<>();
                texts(count("field")).forEach(text -> scores.put(text, (long) scores.size()));
                team.setScores(scores);
            });
        }
    }

    private static List<@Nullable String> texts(int count) {
        List<@Nullable String> texts = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            texts.add(text(i));
        }
        return texts;
    }

    /// Some are kept in slots, some in buffers, and some are nothing.
    private static @Nullable String text(int i) {
        return i % 5 == 4 ? null : (i % 2 == 0 ? LONG : "") + i;
    }

    private static DurableList<String> list(Pool pool) {
        return DurableList.root(
                pool, "list", ElementType.STRING, StorageTier.PMEM, StorageTier.DISK);
    }

    private static DurableMap<String, Long> map(Pool pool) {
        return DurableMap.root(pool, "map", ElementType.STRING, ElementType.LONG);
    }

    private static DurableTree<Integer, String> tree(Pool pool) {
        return DurableTree.root(
                pool, "tree", ElementType.INTEGER, ElementType.STRING, StorageTier.DISK);
    }

    private static DurableArray<Double> array(Pool pool) {
        return DurableArray.root(pool, "array", ElementType.DOUBLE, 70);
    }

    private static DurableTeam team(Pool pool) {
        return java.util.Objects.requireNonNull(pool.root("team", DurableTeam.TYPE).get());
    }

    private static Stream<Step> each(String name, Consumer<Pool> work, int... elements) {
        return IntStream.of(elements).mapToObj(count -> new Step(name, count, work));
    }

    static Stream<Step> steps() {
        return Stream.of(listSteps(), mapSteps(), treeSteps(), fieldSteps(), largeSteps())
                .flatMap(steps -> steps);
    }

    /// What is freed only after the commit, in parts.
    static Stream<Step> largeSteps() {
        return Stream.of(
                        each("list: clear many", pool -> list(pool).clear(), LARGE),
                        each("map: clear many", pool -> map(pool).clear(), LARGE),
                        each("tree: clear many", pool -> tree(pool).clear(), LARGE),
                        each(
                                "list: delete many",
                                pool -> drop(pool, "list", list(pool)::delete),
                                LARGE),
                        each(
                                "field: delete the owner of many",
                                pool -> drop(pool, "team", team(pool)::delete),
                                LARGE),
                        Stream.of(clearAllStep()))
                .flatMap(steps -> steps);
    }

    private static void clearAll(Pool pool) {
        pool.transact(() -> {
            list(pool).clear();
            list(pool).add(LONG);
            map(pool).clear();
            tree(pool).clear();
            team(pool).setNames(null);
        });
    }

    private static Stream<Step> listSteps() {
        return Stream.of(
                        each(
                                "list: add",
                                pool -> list(pool).add(LONG + "new"),
                                0,
                                3,
                                4,
                                64,
                                1023,
                                1024),
                        each("list: insert", pool -> list(pool).add(1, LONG + "new"), 1, 4, 64),
                        each(
                                "list: add many",
                                pool -> list(pool).addAll(2, List.of("a", LONG, "c")),
                                2,
                                63,
                                1023),
                        each("list: replace", pool -> list(pool).set(2, LONG + "new"), 3, 1030),
                        each("list: replace by null", pool -> list(pool).set(2, null), 3),
                        each("list: remove", pool -> list(pool).remove(1), 2, 65),
                        each("list: remove the last", pool -> list(pool).removeLast(), 1, 5, 1025),
                        each(
                                "list: remove some",
                                pool -> list(pool).removeIf(e -> e == null || e.length() < 5),
                                30),
                        each("list: clear", pool -> list(pool).clear(), 1, 30),
                        each("list: sort", pool -> list(pool).subList(0, 4).sort(null), 4),
                        each("array: set", pool -> array(pool).set(3, 7.5), 0),
                        each("array: set to null", pool -> array(pool).set(69, null), 0),
                        each("list: delete", pool -> drop(pool, "list", list(pool)::delete), 30))
                .flatMap(steps -> steps);
    }

    private static Stream<Step> mapSteps() {
        return Stream.of(
                        each(
                                "map: put",
                                pool -> map(pool).put(LONG + "new", 5L),
                                0,
                                1,
                                3,
                                4,
                                30,
                                63),
                        each("map: put null", pool -> map(pool).put("new", null), 3),
                        each("map: replace", pool -> map(pool).put(LONG + "2", 77L), 3, 30),
                        each("map: replace by null", pool -> map(pool).put(LONG + "2", null), 3),
                        each("map: remove", pool -> map(pool).remove(LONG + "2"), 3, 40),
                        each(
                                "map: remove through an iterator",
                                CollectionCrashTest::removeThroughIterator,
                                20),
                        each("map: grow", CollectionCrashTest::grow, 0, 3),
                        each("map: clear", pool -> map(pool).clear(), 40),
                        each("map: delete", pool -> drop(pool, "map", map(pool)::delete), 40))
                .flatMap(steps -> steps);
    }

    private static Stream<Step> treeSteps() {
        return Stream.of(
                        each("tree: put", pool -> tree(pool).put(7, LONG + "new"), 0, 1, 29, 60),
                        each("tree: split", pool -> tree(pool).put(57, "new"), 29, 44, 500),
                        each("tree: replace", pool -> tree(pool).put(4, LONG + "new"), 3, 29),
                        each("tree: replace by null", pool -> tree(pool).put(4, null), 3),
                        each("tree: remove", pool -> tree(pool).remove(2), 3, 29),
                        each("tree: remove an inner entry", pool -> tree(pool).remove(28), 30, 60),
                        each("tree: merge", CollectionCrashTest::shrink, 30, 60),
                        each("tree: clear a part", pool -> tree(pool).headMap(10).clear(), 40),
                        each("tree: clear", pool -> tree(pool).clear(), 40),
                        each("tree: poll", pool -> tree(pool).pollFirstEntry(), 1, 31),
                        each("tree: delete", pool -> drop(pool, "tree", tree(pool)::delete), 40))
                .flatMap(steps -> steps);
    }

    private static Stream<Step> fieldSteps() {
        return Stream.of(
                        each(
                                "field: set a list",
                                pool -> team(pool).setNames(List.of(LONG, "b")),
                                0,
                                5),
                        each("field: set a map", pool -> team(pool).setScores(Map.of(LONG, 1L)), 5),
                        each(
                                "field: set a tree",
                                pool -> team(pool).setYears(new TreeMap<>(Map.of(7, LONG))),
                                0),
                        each("field: set to null", pool -> team(pool).setNames(null), 5),
                        each(
                                "field: set to itself",
                                pool -> team(pool).setNames(team(pool).getNames()),
                                5),
                        each(
                                "field: delete the owner",
                                pool -> drop(pool, "team", team(pool)::delete),
                                5),
                        each("several in one transaction", CollectionCrashTest::several, 5))
                .flatMap(steps -> steps);
    }

    private static void drop(Pool pool, String root, Runnable delete) {
        pool.transact(() -> {
            delete.run();
            pool.setRootReference(root, 0);
        });
    }

    private static void removeThroughIterator(Pool pool) {
        for (Iterator<String> keys = map(pool).keySet().iterator(); keys.hasNext(); ) {
            String key = keys.next();
            if (key == null || key.endsWith("3")) {
                keys.remove();
            }
        }
    }

    private static void grow(Pool pool) {
        for (int i = 0; i < 12; i++) {
            map(pool).put("grown " + i, null);
        }
    }

    private static void shrink(Pool pool) {
        for (int i = 0; i < 18; i++) {
            tree(pool).remove(2 * i);
        }
    }

    private static void several(Pool pool) {
        pool.transact(() -> {
            list(pool).add(map(pool).size() + LONG);
            map(pool).remove("1");
            tree(pool).pollLastEntry();
            team(pool).setNames(list(pool));
        });
    }

    /// What there is to see, as text; the pool is only looked at.
    private static String look(Pool pool) {
        List<Object> all = new ArrayList<>();
        all.add(pool.rootReference("list") == 0 ? "none" : list(pool));
        all.add(pool.rootReference("map") == 0 ? "none" : sorted(map(pool)));
        all.add(pool.rootReference("tree") == 0 ? "none" : tree(pool));
        all.add(pool.rootReference("array") == 0 ? "none" : array(pool));
        all.add(pool.rootReference("team") == 0 ? "none" : team(pool).contents());
        return all.toString();
    }

    private static Map<String, Long> sorted(Map<String, Long> map) {
        Map<String, Long> sorted = new TreeMap<>();
        map.forEach((key, value) -> sorted.put(String.valueOf(key), value));
        return sorted;
    }

    /// All that is in use is reached, and all that is reached is in use; to be said only where the
    /// last commit has been finished.
    private static void checkIsSound(Pool pool) {
        PoolReport report = pool.check();
        assertEquals(List.of(), report.problems());
        assertEquals(Map.of(), report.leaked());
        assertEquals(0, report.staleReferences());
    }

    @ParameterizedTest
    @MethodSource("steps")
    void whatACrashLeavesIsAState(Step step) {
        try (PoolRig rig = PoolRig.of(step::prepare)) {
            CrashHistory history = CrashHistory.of(rig, step.work(), CollectionCrashTest::look);
            int states = 0;
            for (boolean readOnly : new boolean[] {false, true}) {
                states +=
                        rig.forEachCrash(
                                readOnly,
                                (happened, found) -> {
                                    history.check(happened, found.read(() -> look(found)));
                                    if (!readOnly) {
                                        checkIsSound(found);
                                    }
                                });
            }
            assertTrue(states > 2, states + " states");
            assertEquals(history.states().getLast(), look(rig.pool()));
        }
    }

    private static Step clearAllStep() {
        return new Step("clear many in one transaction", LARGE, CollectionCrashTest::clearAll);
    }

    /// The next opening of the pool frees the rest.
    @Test
    void whatIsNotFreedYetIsFreedAfterACrash() {
        Step step = clearAllStep();
        try (PoolRig rig = PoolRig.of(step::prepare)) {
            CrashHistory history = CrashHistory.of(rig, step.work(), CollectionCrashTest::look);
            long used = rig.pool().statistics().used().getFirst();
            rig.forEachCrash(
                    false,
                    (happened, found) -> {
                        String before = look(found);
                        found.collect();
                        assertEquals(before, look(found));
                        history.check(happened, before);
                        checkIsSound(found);
                        if (before.equals(history.states().getLast())) {
                            assertEquals(used, found.statistics().used().getFirst());
                        }
                    });
        }
    }

    @Test
    void aCrashOfRecoveryLeavesAState() {
        Step step = clearAllStep();
        try (PoolRig rig = PoolRig.of(step::prepare)) {
            CrashHistory history = CrashHistory.of(rig, step.work(), CollectionCrashTest::look);
            int states =
                    rig.forEachCrashOfRecovery(
                            (happened, found) -> history.check(happened, look(found)));
            assertTrue(states > 2, states + " states");
        }
    }
}
