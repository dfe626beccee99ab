package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// A collection of what no root reaches takes many commits. Every state that a power cut may leave
/// of it is sound, and another collection frees the rest.
class CollectCrashTest {
    private static final String KEPT = "kept";
    private static final String CLASS = DurablePerson.TYPE.name();

    /// More than one commit frees.
    private static final int MANY = 1500;

    private static final ObjectType<AnyHandle> BEFORE = extended();
    private static final ObjectType<AnyHandle> AFTER =
            extended(FieldSpec.of("note", FieldKind.STRING).orNull());

    private static ObjectType<AnyHandle> extended(FieldSpec... more) {
        List<FieldSpec> fields = new ArrayList<>(List.of(FieldSpec.of("size", FieldKind.INT)));
        fields.addAll(List.of(more));
        return ObjectType.of(
                "dev.terrace.Extended",
                AnyHandle.class,
                AnyHandle::new,
                List.of(),
                fields.toArray(new FieldSpec[0]));
    }

    private static String text(int number) {
        return "a text that is longer than a slot holds " + number;
    }

    private static DurablePerson person(Pool pool, int number) {
        DurablePerson person = DurablePerson.create(pool);
        person.setAge(number);
        person.setPlace(text(number));
        return person;
    }

    private static void keepOne(Pool pool) {
        pool.transact(() -> {
            DurablePerson kept = person(pool, -1);
            kept.setImage(new byte[100]);
            pool.root(KEPT, DurablePerson.TYPE).set(kept);
        });
    }

    private static void leakPeople(Pool pool, int count) {
        pool.transact(() -> {
            for (int i = 0; i < count; i++) {
                DurablePerson person = person(pool, i);
                if (i % 5 == 0) {
                    person.setImage(new byte[100]);
                }
            }
        });
    }

    private static void leakTeams(Pool pool, int count) {
        for (int i = 0; i < count; i++) {
            DurableTeam team = DurableTeam.create(pool);
            team.setNames(List.of(text(i), text(i + 1), text(i + 2)));
            team.setScores(Map.of(text(i), 1L));
            team.setYears(new TreeMap<>(Map.of(i, text(i))));
        }
    }

    private static void leakExtended(Pool pool, int count) {
        for (int i = 0; i < count; i++) {
            AnyHandle old = pool.create(BEFORE);
            pool.object(AFTER, old.reference()).set(1, text(i));
        }
    }

    private static void collectInSmallParts(Pool pool) {
        Supplier<Boolean> work =
                () -> {
                    Reachability reachability = new Reachability(pool);
                    assertEquals(List.of(), reachability.run().problems());
                    new Collector(pool, 7).free(reachability.leaks());
                    return true;
                };
        assertTrue(pool.store().alone(work::get));
    }

    /// Throws unless each person in the pool can be read.
    private static void readAll(Pool pool) {
        for (Cursor<DurablePerson> each = pool.cursor(DurablePerson.TYPE); each.next(); ) {
            DurablePerson person = each.get();
            assertEquals(text(person.getAge()), person.getPlace());
        }
    }

    private static void isSound(Pool pool) {
        assertEquals(List.of(), pool.check().problems());
        readAll(pool);
    }

    private static void collects(Pool pool) {
        isSound(pool);
        pool.collect();
        PoolReport report = pool.check();
        assertEquals(List.of(), report.problems());
        assertEquals(Map.of(), report.leaked());
        assertEquals(Map.of(CLASS, 1L), report.objects());
        readAll(pool);
    }

    private static void whatACrashLeavesIsCollected(Consumer<Pool> leak) {
        try (PoolRig rig = new PoolRig()) {
            keepOne(rig.pool());
            leak.accept(rig.pool());
            rig.begin();
            int[] commits = {0};
            rig.onCommit(() -> commits[0]++);
            collectInSmallParts(rig.pool());
            rig.onCommit(() -> {});
            assertTrue(commits[0] > 3, commits[0] + " commits");
            int states = rig.forEachCrash(false, (_, found) -> collects(found));
            assertTrue(states > commits[0], states + " states");
            collects(rig.pool());
        }
    }

    @Test
    void anObjectIsFreedWithItsValues() {
        whatACrashLeavesIsCollected(pool -> leakPeople(pool, 20));
    }

    @Test
    void anObjectIsFreedBeforeItsCollections() {
        whatACrashLeavesIsCollected(pool -> leakTeams(pool, 4));
    }

    @Test
    void anObjectIsFreedWithItsExtension() {
        whatACrashLeavesIsCollected(pool -> leakExtended(pool, 12));
    }

    /// Has a look at the pool after each commit of a collection.
    private static void isSoundAfterEachCommit(Consumer<Pool> leak, int expected) {
        try (PoolRig rig = new PoolRig()) {
            keepOne(rig.pool());
            leak.accept(rig.pool());
            int[] commits = {0};
            rig.onCommit(() -> {
                commits[0]++;
                isSound(rig.reader());
            });
            rig.pool().collect();
            rig.onCommit(() -> {});
            assertTrue(commits[0] >= expected, commits[0] + " commits");
            collects(rig.pool());
        }
    }

    @ParameterizedTest
    @ValueSource(ints = {600, 2 * MANY})
    void manyObjectsAreFreedInSoundSteps(int count) {
        isSoundAfterEachCommit(pool -> leakPeople(pool, count), count / 500);
    }

    /// Each is too large for one commit.
    @Test
    void largeCollectionsAreFreedInSoundSteps() {
        isSoundAfterEachCommit(
                pool ->
                        pool.transact(() -> {
                            var list = DurableList.create(pool, ElementType.STRING);
                            var map =
                                    DurableMap.create(
                                            pool, ElementType.INTEGER, ElementType.STRING);
                            var tree =
                                    DurableTree.create(pool, ElementType.STRING, ElementType.LONG);
                            for (int i = 0; i < MANY; i++) {
                                list.add(text(i));
                                map.put(i, text(i));
                                tree.put(text(i), (long) i);
                            }
                        }),
                3 + 3 * (MANY / 500));
    }
}
