package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.ElementType;
import dev.terrace.objects.internal.store.RecordingRegion.Event;
import dev.terrace.objects.internal.store.Superblock;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Every state that a power cut may leave while values move, files grow and get shorter, and room
/// is given back, holds what the pool held.
class MoveCrashTest {
    /// All chunks but one that may be used of a disk's first extent.
    private static final int MOST_BYTES = 900_000;

    /// What takes a chunk.
    private static final int CHUNK_BYTES = 60_000;

    /// Something that moves values, and what must be there for it.
    ///
    /// @param leaks whether there may be something that no root reaches
    record Step(String name, Consumer<Pool> prepare, Consumer<Pool> work, boolean leaks) {
        Step(String name, Consumer<Pool> prepare, Consumer<Pool> work) {
            this(name, prepare, work, false);
        }

        @Override
        public String toString() {
            return name;
        }
    }

    private static String text(int i) {
        return ("text " + i + " ").repeat(150 + i % 10);
    }

    private static DurableList<DurablePerson> people(Pool pool) {
        return DurableList.root(pool, "people", ElementType.of(DurablePerson.TYPE));
    }

    private static DurableList<String> texts(Pool pool) {
        return DurableList.root(
                pool, "texts", ElementType.STRING, StorageTier.PMEM, StorageTier.DISK);
    }

    private static DurableMap<String, String> map(Pool pool) {
        return DurableMap.root(
                pool, "map", ElementType.STRING, ElementType.STRING, StorageTier.DISK);
    }

    private static void make(Pool pool, int count) {
        pool.transact(() -> {
            for (int i = 0; i < count; i++) {
                DurablePerson person = DurablePerson.create(pool);
                person.setAge(i);
                person.setPlace(text(i));
                person.setName(text(i));
                person.setImage(text(i).getBytes(java.nio.charset.StandardCharsets.ISO_8859_1));
                people(pool).add(person);
                texts(pool).add(text(i));
                map(pool).put("key of " + text(i), text(i));
            }
        });
    }

    private static void sparse(Pool pool) {
        make(pool, 60);
        // Those that stay are of one size and in several chunks.
        for (int i = 59; i >= 0; i--) {
            if (i % 20 != 0) {
                people(pool).remove(i).delete();
                texts(pool).remove(i);
                map(pool).remove("key of " + text(i));
            }
        }
    }

    private static void fillDisk(Pool pool) {
        DurablePerson most = DurablePerson.create(pool);
        most.setImage(new byte[MOST_BYTES]);
        DurablePerson rest = DurablePerson.create(pool);
        rest.setImage(new byte[CHUNK_BYTES]);
        make(pool, 3);
        most.delete();
        rest.delete();
        assertEquals(2L << 20, pool.statistics().capacity().get(1));
    }

    private static void fillPmem(Pool pool) {
        make(pool, 1);
        DurableList<byte[]> filler = DurableList.root(pool, "filler", ElementType.BYTES);
        while (pool.store().usage().roomInPmem() > pool.store().pmem().bytesToGrow()) {
            filler.add(new byte[CHUNK_BYTES]);
        }
        assertEquals(1L << 20, pool.statistics().capacity().getFirst());
    }

    private static void fillFirstExtent(Pool pool) {
        make(pool, 1);
        DurableList<byte[]> filler =
                DurableList.root(pool, "filler", ElementType.BYTES, StorageTier.DISK);
        // The label has a chunk, and so have the values that are there.
        for (int i = 0; i < 14; i++) {
            filler.add(new byte[CHUNK_BYTES]);
        }
        assertEquals(1L << 20, pool.statistics().capacity().get(1));
    }

    private static void emptyDisk(Pool pool) {
        make(pool, 2);
        people(pool).forEach(person -> person.setImage(null));
        map(pool).clear();
    }

    private static void compact(Pool pool) {
        CompactionReport report = pool.compact();
        assertTrue(report.valuesMoved() > 0 && report.chunksFreed() > 0, report::toString);
    }

    private static void compactAndGiveBack(Pool pool) {
        assertEquals(1 << 20, pool.compact().bytesGivenBack());
    }

    private static void demote(Pool pool) {
        assertTrue(pool.balancer().makeRoom());
        assertTrue(pool.demotedBytes() > 0);
    }

    private static void promote(Pool pool) {
        pool.balancer().promoteAll();
        assertTrue(pool.promotedBytes() > 0);
    }

    /// The class with other tags.
    private static ObjectType<EvolutionTest.After> retagged() {
        return ObjectType.of(
                DurablePerson.TYPE.name(),
                EvolutionTest.After.class,
                EvolutionTest.After::new,
                List.of(),
                DurablePerson.TYPE.fields().stream()
                        .map(MoveCrashTest::retagged)
                        .toArray(FieldSpec[]::new));
    }

    private static FieldSpec retagged(FieldSpec field) {
        return switch (field.name()) {
            case "place", "name" -> field.on(StorageTier.DISK);
            case "image" -> field.on(StorageTier.PMEM);
            default -> field;
        };
    }

    static Stream<Step> steps() {
        return Stream.of(
                new Step("demotion", pool -> make(pool, 3), MoveCrashTest::demote),
                new Step(
                        "promotion",
                        pool -> {
                            make(pool, 3);
                            pool.balancer().makeRoom();
                        },
                        MoveCrashTest::promote),
                new Step("compaction", MoveCrashTest::sparse, MoveCrashTest::compact),
                new Step(
                        "a disk gets shorter",
                        MoveCrashTest::fillDisk,
                        MoveCrashTest::compactAndGiveBack),
                new Step(
                        "a disk becomes empty",
                        MoveCrashTest::emptyDisk,
                        MoveCrashTest::compactAndGiveBack),
                new Step(
                        "a disk gets shorter and longer",
                        MoveCrashTest::fillDisk,
                        pool -> {
                            compactAndGiveBack(pool);
                            people(pool).getFirst().setImage(new byte[MOST_BYTES]);
                        }),
                new Step(
                        "persistent memory grows",
                        MoveCrashTest::fillPmem,
                        pool -> {
                            people(pool).getFirst().setPlace("x".repeat(CHUNK_BYTES));
                            assertEquals(2L << 20, pool.statistics().capacity().getFirst());
                        }),
                new Step(
                        "a disk grows",
                        MoveCrashTest::fillFirstExtent,
                        pool -> {
                            people(pool).getFirst().setImage(new byte[CHUNK_BYTES]);
                            assertEquals(2L << 20, pool.statistics().capacity().get(1));
                        }),
                new Step(
                        "retagging",
                        pool -> make(pool, 3),
                        pool -> assertTrue(pool.retier(retagged()).valuesMoved() >= 9)),
                new Step(
                        "placing",
                        pool -> make(pool, 2),
                        pool ->
                                assertTrue(
                                        pool.place(
                                                                DurablePerson.TYPE.name(),
                                                                Map.of(
                                                                        "place",
                                                                        List.of(StorageTier.DISK)))
                                                        .valuesMoved()
                                                >= 2)),
                new Step(
                        "collect",
                        pool -> {
                            make(pool, 4);
                            people(pool).clear();
                            map(pool).clear();
                        },
                        pool -> assertTrue(pool.collect().leakedBytes() > 0),
                        true));
    }

    /// What there is to see, as text.
    private static String look(Pool pool) {
        List<Object> all = new ArrayList<>();
        for (DurablePerson person : people(pool)) {
            byte[] image = person.getImage();
            String name = String.valueOf(person.getPlace());
            all.add(
                    person.getAge()
                            + " "
                            + name.hashCode()
                            + " "
                            + name.equals(person.getName())
                            + Arrays.hashCode(image));
        }
        texts(pool).forEach(text -> all.add(text.hashCode()));
        all.add(map(pool).hashCode());
        return all.toString();
    }

    private static void checkIsSound(Step step, Pool pool) {
        PoolReport report = pool.check();
        assertEquals(List.of(), report.problems());
        assertEquals(0, report.staleReferences());
        assertTrue(step.leaks || report.leaked().isEmpty(), report::toString);
    }

    @ParameterizedTest
    @MethodSource("steps")
    void whatACrashLeavesIsAState(Step step) {
        try (PoolRig rig = PoolRig.of(step.prepare())) {
            CrashHistory history = CrashHistory.of(rig, step.work(), MoveCrashTest::look);
            int states = 0;
            for (boolean readOnly : new boolean[] {false, true}) {
                states +=
                        rig.forEachCrash(
                                readOnly,
                                (happened, found) -> {
                                    history.check(happened, found.read(() -> look(found)));
                                    if (!readOnly) {
                                        checkIsSound(step, found);
                                    }
                                });
            }
            assertTrue(states > 2, states + " states");
            checkIsSound(step, rig.pool());
        }
    }

    @ParameterizedTest
    @MethodSource("steps")
    void aCrashOfRecoveryLeavesAState(Step step) {
        try (PoolRig rig = PoolRig.of(step.prepare())) {
            CrashHistory history = CrashHistory.of(rig, step.work(), MoveCrashTest::look);
            int states =
                    rig.forEachCrashOfRecovery(
                            (happened, found) -> history.check(happened, look(found)));
            assertTrue(states > 2, states + " states");
        }
    }

    static Stream<Step> compactions() {
        return steps().filter(step ->
                step.name.equals("compaction") || step.name.equals("a disk gets shorter"));
    }

    /// After a crash what was interrupted is done again, and the same is there.
    @ParameterizedTest
    @MethodSource("compactions")
    void whatWasInterruptedGoesOn(Step step) {
        try (PoolRig rig = PoolRig.of(step.prepare())) {
            CrashHistory history = CrashHistory.of(rig, step.work(), MoveCrashTest::look);
            rig.forEachCrash(
                    false,
                    (happened, found) -> {
                        found.compact();
                        checkIsSound(step, found);
                        assertEquals(0, found.compact().bytesGivenBack());
                        history.check(happened, look(found));
                    });
        }
    }

    /// Whether some state that a power cut leaves of a disk that gets shorter shows that these
    /// events are not right.
    private static boolean isFound(UnaryOperator<List<Event>> mistake) {
        try (PoolRig rig = PoolRig.of(MoveCrashTest::fillDisk)) {
            CrashHistory history =
                    CrashHistory.of(rig, MoveCrashTest::compactAndGiveBack, MoveCrashTest::look);
            try {
                rig.forEachCrash(
                        mistake.apply(rig.events()),
                        false,
                        (_, found) -> history.check(0, look(found)));
                return false;
            } catch (AssertionError | TerraceException found) {
                return true;
            }
        }
    }

    private static List<Event> cutOffBeforeTheCommit(List<Event> events) {
        List<Event> moved = new ArrayList<>(events);
        int cut = 0;
        while (!(moved.get(cut) instanceof Event.Shrunk)) {
            cut++;
        }
        Event shrunk = moved.remove(cut);
        int to = cut;
        while (!(moved.get(to - 1) instanceof Event.Stored(var region, long offset, _)
                && region.name().equals("pmem")
                && offset == Superblock.LOG_AT)) {
            to--;
        }
        moved.add(to, shrunk);
        return moved;
    }

    @Test
    void aFileThatIsCutOffBeforeTheCommitIsFound() {
        assertFalse(isFound(UnaryOperator.identity()));
        assertTrue(isFound(MoveCrashTest::cutOffBeforeTheCommit));
    }

    @Test
    void valuesThatAreNotFlushedAtTheirNewPlaceAreFound() {
        assertTrue(
                isFound(events ->
                        events.stream()
                                .filter(event ->
                                        !(event instanceof Event.Flushed(var region, _, _)
                                                && region.name().equals("disk")))
                                .toList()));
    }
}
