package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.RecordingRegion.Event;
import java.util.List;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/// Every state that a power cut may leave of objects in columns is one between two commits, though
/// words of narrow columns hold values of several objects.
class ColumnarCrashTest {
    private static final ObjectType<AnyHandle> ROWS = ColumnarModelTest.wide();
    private static final ObjectType<AnyHandle> TYPE = ROWS.inColumns();

    /// The class when it had one field.
    private static final ObjectType<AnyHandle> BEFORE =
            ObjectType.of(
                            "Wide",
                            AnyHandle.class,
                            AnyHandle::new,
                            List.of(),
                            FieldSpec.of("byte", FieldKind.BYTE))
                    .inColumns();

    private static final int NEIGHBORS = 4;

    /// Something that programs do, and what must be there for it.
    record Step(String name, Consumer<Pool> prepare, Consumer<Pool> work) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static AnyHandle make(Pool pool, ObjectType<AnyHandle> type, int number) {
        return pool.transact(() -> {
            AnyHandle thing = pool.create(type);
            thing.fill(number);
            pool.root("thing " + number, type).set(thing);
            return thing;
        });
    }

    private static void makeNeighbors(Pool pool) {
        for (int i = 0; i < NEIGHBORS; i++) {
            make(pool, TYPE, i);
        }
    }

    private static AnyHandle thing(Pool pool, int number) {
        return Objects.requireNonNull(pool.root("thing " + number, TYPE).get());
    }

    private static void delete(Pool pool, int number) {
        pool.transact(() -> {
            AnyHandle thing = thing(pool, number);
            pool.root("thing " + number, TYPE).set(null);
            thing.delete();
        });
    }

    private static Step beside(String name, Consumer<Pool> work) {
        return new Step(name, ColumnarCrashTest::makeNeighbors, work);
    }

    static Stream<Step> steps() {
        return Stream.of(
                new Step("make the first", pool -> {}, pool -> make(pool, TYPE, 0)),
                beside("make one beside others", pool -> make(pool, TYPE, NEIGHBORS)),
                beside("set a number", pool -> setNumbers(pool, 1, 7)),
                beside("set all fields", pool -> thing(pool, 1).setTogether(() -> fill(pool, 1))),
                beside(
                        "make one, and set its neighbors",
                        pool ->
                                pool.transact(() -> {
                                    setNumbers(pool, NEIGHBORS - 1, 8);
                                    AnyHandle made = make(pool, TYPE, NEIGHBORS);
                                    setNumbers(pool, NEIGHBORS - 2, 9);
                                    made.fill(11);
                                })),
                beside("delete one", pool -> delete(pool, 1)),
                beside(
                        "make one in the place of one that was deleted",
                        pool -> {
                            delete(pool, 2);
                            make(pool, TYPE, 2);
                        }),
                beside(
                        "a transaction that is rolled back",
                        pool -> {
                            assertThrows(
                                    IllegalStateException.class,
                                    () ->
                                            pool.transact(() -> {
                                                setNumbers(pool, NEIGHBORS - 1, 8);
                                                make(pool, TYPE, NEIGHBORS);
                                                throw new IllegalStateException("on purpose");
                                            }));
                            setNumbers(pool, NEIGHBORS - 1, 5);
                        }),
                new Step(
                        "set fields that the class had not",
                        pool -> make(pool, BEFORE, 0),
                        pool -> setNumbers(pool, 0, 3)),
                new Step(
                        "make one in columns of a class that was in rows",
                        pool -> make(pool, ROWS, 0),
                        pool -> make(pool, TYPE, 1)),
                beside(
                        "many in one transaction",
                        pool ->
                                pool.transact(() -> {
                                    for (int i = 0; i < 700; i++) {
                                        pool.create(TYPE).fill(i % 100);
                                    }
                                    setNumbers(pool, 0, 9);
                                })));
    }

    private static void fill(Pool pool, int number) {
        thing(pool, number).fill(number + 20);
    }

    /// Sets the narrow fields, one by one.
    private static void setNumbers(Pool pool, int number, int seed) {
        AnyHandle thing = thing(pool, number);
        for (int i = 0; i < thing.count(); i++) {
            if (thing.spec(i).kind().ordinal() <= FieldKind.INT.ordinal()) {
                thing.set(i, GoldenPool.value(thing.spec(i), seed));
            }
        }
    }

    private static @Nullable String look(Pool pool) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i <= NEIGHBORS; i++) {
            AnyHandle thing = pool.root("thing " + i, TYPE).get();
            text.append(thing == null ? null : thing.all()).append('\n');
        }
        int count = 0;
        for (Cursor<AnyHandle> each = pool.cursor(TYPE); each.next(); ) {
            count++;
        }
        return text.append(count).toString();
    }

    @ParameterizedTest
    @MethodSource("steps")
    void whatACrashLeavesIsAState(Step step) {
        try (PoolRig rig = PoolRig.of(step.prepare())) {
            CrashHistory history = CrashHistory.of(rig, step.work(), ColumnarCrashTest::look);
            history.checkEachCrash(rig, ColumnarCrashTest::look);
        }
    }

    /// Whether some step and some state that a power cut leaves shows that these events are not
    /// right.
    private static boolean isFound(UnaryOperator<List<Event>> mistake) {
        for (Step step : steps().toList()) {
            try (PoolRig rig = PoolRig.of(step.prepare())) {
                if (CrashHistory.shows(mistake, rig, step.work(), ColumnarCrashTest::look)) {
                    return true;
                }
            }
        }
        return false;
    }

    @Test
    void withoutAMistakeNoneIsFound() {
        assertFalse(isFound(UnaryOperator.identity()));
    }

    @ParameterizedTest
    @EnumSource(names = "DISK_NOT_FLUSHED", mode = EnumSource.Mode.EXCLUDE)
    void aFlushOrFenceThatIsForgottenIsFound(CrashTest.Bug bug) {
        assertTrue(isFound(events -> events.stream().filter(event -> !bug.drops(event)).toList()));
    }
}
