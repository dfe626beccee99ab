package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Every state that a power cut may leave of what is done to objects whose class has changed since
/// they were stored is one between two commits.
class ExtensionCrashTest {
    private static final String LONG = "a text that is longer than a slot holds ";
    private static final String ROOT = "thing";

    private static final ObjectType<EvolutionTest.Before> BEFORE =
            ObjectType.of(
                    "Thing",
                    EvolutionTest.Before.class,
                    EvolutionTest.Before::new,
                    List.of(),
                    FieldSpec.of("count", FieldKind.INT),
                    FieldSpec.of("text", FieldKind.STRING).orNull(),
                    FieldSpec.of("color", FieldKind.ENUM).among("Color", "GREEN", "RED").orNull());

    private static final ObjectType<EvolutionTest.After> AFTER =
            ObjectType.of(
                    "Thing",
                    EvolutionTest.After.class,
                    EvolutionTest.After::new,
                    List.of(),
                    FieldSpec.of("count", FieldKind.LONG),
                    FieldSpec.of("text", FieldKind.STRING).orNull(),
                    FieldSpec.of("color", FieldKind.ENUM)
                            .among("Color", "RED", "GREEN", "BLUE")
                            .orNull(),
                    FieldSpec.of("note", FieldKind.STRING).orNull(),
                    FieldSpec.of("place", FieldKind.STRING).on(StorageTier.DISK).orNull(),
                    FieldSpec.of("row", FieldKind.DOUBLES).ofLength(3));

    /// Something that programs do to an object in its old form.
    record Step(
            String name,
            Consumer<EvolutionTest.After> prepare,
            Consumer<EvolutionTest.After> work) {
        @Override
        public String toString() {
            return name;
        }

        void makeOld(Pool pool) {
            pool.transact(() -> {
                EvolutionTest.Before thing = pool.create(BEFORE);
                thing.set(0, -7);
                thing.set(1, LONG);
                thing.set(2, EvolutionTest.Color.RED);
                pool.root(ROOT, BEFORE).set(thing);
            });
            EvolutionTest.After thing = thing(pool);
            assertTrue(thing != null);
            prepare.accept(thing);
        }

        void work(Pool pool) {
            EvolutionTest.After thing = thing(pool);
            assertTrue(thing != null);
            work.accept(thing);
        }
    }

    private static EvolutionTest.@Nullable After thing(Pool pool) {
        return pool.root(ROOT, AFTER).get();
    }

    private static Step first(String name, Consumer<EvolutionTest.After> work) {
        return new Step("first: " + name, thing -> {}, work);
    }

    private static Step second(String name, Consumer<EvolutionTest.After> work) {
        return new Step("second: " + name, thing -> thing.set(3, LONG + "before"), work);
    }

    private static void delete(EvolutionTest.After thing) {
        Pool pool = thing.pool();
        pool.transact(() -> {
            pool.root(ROOT, AFTER).set(null);
            thing.delete();
        });
    }

    static Stream<Step> steps() {
        return Stream.of(
                first("a new field", thing -> thing.set(3, LONG + "note")),
                first("a new field on disk", thing -> thing.set(4, LONG + "place")),
                first("an element of a new array", thing -> thing.set(5, 1, 1.5)),
                first("a wider field", thing -> thing.set(0, 1L << 40)),
                first(
                        "an enum with other constants",
                        thing -> thing.set(2, EvolutionTest.Color.BLUE)),
                first("a field that was there", thing -> thing.set(1, LONG + "again")),
                first(
                        "several fields",
                        thing ->
                                thing.pool()
                                        .transact(() -> {
                                            thing.set(0, 1L << 41);
                                            thing.set(3, LONG + "note");
                                            thing.set(4, LONG + "place");
                                        })),
                first("delete", ExtensionCrashTest::delete),
                second("a new field", thing -> thing.set(3, LONG + "note")),
                second("a new field on disk", thing -> thing.set(4, LONG + "place")),
                second("a wider field", thing -> thing.set(0, 1L << 40)),
                second(
                        "an enum with other constants",
                        thing -> thing.set(2, EvolutionTest.Color.BLUE)),
                second("delete", ExtensionCrashTest::delete));
    }

    private static @Nullable String look(Pool pool) {
        EvolutionTest.After thing = thing(pool);
        return thing == null
                ? null
                : thing.number(0)
                        + thing.text(1)
                        + thing.color(2)
                        + thing.text(3)
                        + thing.text(4)
                        + Arrays.toString(thing.row(5));
    }

    @ParameterizedTest
    @MethodSource("steps")
    void whatACrashLeavesIsAState(Step step) {
        try (PoolRig rig = PoolRig.of(step::makeOld)) {
            CrashHistory history = CrashHistory.of(rig, step::work, ExtensionCrashTest::look);
            int states = 0;
            for (boolean readOnly : new boolean[] {false, true}) {
                states +=
                        rig.forEachCrash(
                                readOnly,
                                (happened, found) -> {
                                    history.check(happened, found.read(() -> look(found)));
                                    if (!readOnly) {
                                        PoolReport report = found.check();
                                        assertEquals(List.of(), report.problems());
                                        assertEquals(Map.of(), report.leaked());
                                    }
                                });
            }
            assertTrue(states > 2, states + " states");
            assertEquals(history.states().getLast(), look(rig.pool()));
        }
    }

    @ParameterizedTest
    @MethodSource("steps")
    void aCrashOfRecoveryLeavesAState(Step step) {
        try (PoolRig rig = PoolRig.of(step::makeOld)) {
            CrashHistory history = CrashHistory.of(rig, step::work, ExtensionCrashTest::look);
            int states =
                    rig.forEachCrashOfRecovery(
                            (happened, found) -> history.check(happened, look(found)));
            assertTrue(states > 2, states + " states");
        }
    }
}
