package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.RecordingRegion.Event;
import dev.terrace.objects.internal.store.Superblock;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/// Every state that a power cut may leave of what programs do is one between two commits, also for
/// who may only read, and none older than what had returned.
class CrashTest {
    static final String LONG = "a text that is longer than a slot holds";

    /// Something that programs do, and what must be there for it.
    record Step(String name, Consumer<Pool> prepare, Consumer<Pool> work) {
        @Override
        public String toString() {
            return name;
        }
    }

    static DurablePerson bob(Pool pool) {
        DurablePerson bob = pool.root("bob", DurablePerson.TYPE).get();
        assertNotNull(bob);
        return bob;
    }

    private static void makeBob(Pool pool) {
        pool.transact(() -> {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setAge(1);
            bob.setPlace(LONG);
            bob.setImage(new byte[5000]);
            bob.setHeight((short) 5);
            pool.root("bob", DurablePerson.TYPE).set(bob);
        });
    }

    private static Step change(String name, Consumer<DurablePerson> change) {
        return new Step(name, CrashTest::makeBob, pool -> change.accept(bob(pool)));
    }

    static Stream<Step> steps() {
        return Stream.concat(
                Stream.of(new Step("make", pool -> {}, CrashTest::makeBob)), changes());
    }

    /// The steps that find an object and change it.
    static Stream<Step> changes() {
        return Stream.of(
                change("set a number", bob -> bob.setAge(2)),
                change("set a boxed number", bob -> bob.setHeight((short) 7)),
                change("set a boxed number to null", bob -> bob.setHeight(null)),
                change("set a string", bob -> bob.setPlace(LONG + LONG)),
                change("set a short string", bob -> bob.setPlace("x")),
                change("set a string to null", bob -> bob.setPlace(null)),
                change("set a string where there was none", bob -> bob.setName(LONG)),
                change(
                        "set an array on disk",
                        bob -> bob.setImage(new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})),
                change("set a large array on disk", bob -> bob.setImage(new byte[100_000])),
                change(
                        "set an array in the record",
                        bob -> bob.setRow(new double[] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})),
                change("set an element", bob -> bob.setRow(5, 1.5)),
                change("set a number on disk", bob -> bob.setBalance(77)),
                change("set an enum", bob -> bob.setMood(DurablePerson.Mood.BAD)),
                change("set a reference", bob -> bob.setFriend(bob)),
                change(
                        "set one thing after the other",
                        bob -> {
                            bob.setAge(2);
                            bob.setPlace(LONG + "2");
                            bob.setAge(3);
                            bob.setPlace(LONG + "3");
                        }),
                change(
                        "delete and make anew",
                        bob -> {
                            Pool pool = bob.pool();
                            pool.transact(() -> {
                                pool.root("bob", DurablePerson.TYPE).set(null);
                                bob.delete();
                            });
                            makeBob(pool);
                        }),
                change(
                        "a transaction over tiers",
                        bob ->
                                bob.pool()
                                        .transact(() -> {
                                            bob.setAge(2);
                                            bob.setPlace(LONG + "2");
                                            bob.setImage(new byte[7000]);
                                            bob.setBalance(5);
                                        })),
                change(
                        "a transaction that is rolled back",
                        bob -> {
                            try {
                                bob.pool()
                                        .transact(() -> {
                                            bob.setAge(2);
                                            bob.setPlace(LONG + "2");
                                            throw new IllegalStateException("on purpose");
                                        });
                            } catch (IllegalStateException expected) {
                                bob.setAge(3);
                            }
                        }),
                change(
                        "many objects in one transaction",
                        bob ->
                                bob.pool()
                                        .transact(() -> {
                                            DurablePerson last = bob;
                                            for (int i = 0; i < 3000; i++) {
                                                DurablePerson next =
                                                        DurablePerson.create(bob.pool());
                                                next.setAge(i);
                                                last.setFriend(next);
                                                last = next;
                                            }
                                        })));
    }

    /// What there is to see, as text; null where there is no pool's root.
    private static @Nullable String look(Pool pool) {
        DurablePerson bob = pool.root("bob", DurablePerson.TYPE).get();
        if (bob == null) {
            return null;
        }
        StringBuilder text = new StringBuilder(bob.contents());
        int friends = 0;
        for (DurablePerson next = bob.getFriend();
                next != null && !next.equals(bob);
                next = next.getFriend()) {
            friends++;
            text.append(friends % 1000 == 0 ? " " + next.contents() : "");
        }
        return text.append(" ").append(friends).append(bob.equals(bob.getFriend())).toString();
    }

    @ParameterizedTest
    @MethodSource("steps")
    void whatACrashLeavesIsAState(Step step) {
        try (PoolRig rig = PoolRig.of(step.prepare())) {
            CrashHistory history = CrashHistory.of(rig, step.work(), CrashTest::look);
            history.checkEachCrash(rig, CrashTest::look);
        }
    }

    @ParameterizedTest
    @MethodSource("steps")
    void aCrashOfRecoveryLeavesAState(Step step) {
        Assumptions.assumeFalse(
                step.name().startsWith("many"), "a large log makes too many states of states");
        try (PoolRig rig = PoolRig.of(step.prepare())) {
            CrashHistory history = CrashHistory.of(rig, step.work(), CrashTest::look);
            int states =
                    rig.forEachCrashOfRecovery(
                            (happened, found) -> history.check(happened, look(found)));
            assertTrue(states > 2, states + " states");
        }
    }

    /// A mistake that a library like this may make: what happens to the regions then.
    enum Bug {
        LOG_NOT_FLUSHED {
            @Override
            boolean drops(Event event) {
                return event instanceof Event.Flushed(var region, long offset, _)
                        && region.name().equals("pmem")
                        && offset == Superblock.LOG_AT;
            }
        },
        WORDS_NOT_FLUSHED {
            @Override
            boolean drops(Event event) {
                return event instanceof Event.Flushed(var region, long offset, long length)
                        && region.name().equals("pmem")
                        && offset >= Superblock.LOG_AT + (1 << 16)
                        && length == Long.BYTES;
            }
        },
        SEQUENCE_NOT_FLUSHED {
            @Override
            boolean drops(Event event) {
                return event instanceof Event.Flushed(_, long offset, _)
                        && offset == Superblock.SEQUENCE_AT;
            }
        },
        NEW_DATA_NOT_FLUSHED {
            @Override
            boolean drops(Event event) {
                return event instanceof Event.Flushed(var region, long offset, long length)
                        && region.name().equals("pmem")
                        && offset >= Superblock.LOG_AT + (1 << 16)
                        && length > Long.BYTES;
            }
        },
        DISK_NOT_FLUSHED {
            @Override
            boolean drops(Event event) {
                return event instanceof Event.Flushed(var region, _, _)
                        && region.name().equals("disk");
            }
        },
        NO_FENCES {
            @Override
            boolean drops(Event event) {
                return event instanceof Event.Fenced;
            }
        };

        abstract boolean drops(Event event);
    }

    /// Whether some step and some state that a power cut leaves shows that these events are not
    /// right.
    private static boolean isFound(UnaryOperator<List<Event>> mistake) {
        for (Step step : steps().toList()) {
            try (PoolRig rig = PoolRig.of(step.prepare())) {
                if (CrashHistory.shows(mistake, rig, step.work(), CrashTest::look)) {
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
    @EnumSource
    void aFlushOrFenceThatIsForgottenIsFound(Bug bug) {
        assertTrue(isFound(events -> events.stream().filter(event -> !bug.drops(event)).toList()));
    }

    /// Which of the fences of a commit through the log is forgotten: each is needed.
    @ParameterizedTest
    @ValueSource(ints = {0, 1, 2, 3})
    void eachFenceOfACommitIsNeeded(int forgotten) {
        assertTrue(
                isFound(events -> {
                    List<Event> kept = new ArrayList<>();
                    int fence = -1;
                    for (Event event : events) {
                        if (event instanceof Event.Stored(var region, long offset, _)
                                && region.name().equals("pmem")
                                && offset == Superblock.LOG_AT) {
                            fence = 0;
                        }
                        boolean isFence =
                                event instanceof Event.Fenced(var region)
                                        && region.name().equals("pmem");
                        if (!isFence || fence++ != forgotten) {
                            kept.add(event);
                        }
                    }
                    return kept;
                }));
    }
}
