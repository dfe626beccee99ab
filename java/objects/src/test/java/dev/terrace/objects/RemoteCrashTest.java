package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.RecordingRegion.Event;
import dev.terrace.objects.internal.store.Superblock;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;

/// As [CrashTest], of what lies on the remote tier. Opening a pool to write it finds, beside that,
/// no segments that it does not know, and leaves none.
class RemoteCrashTest {
    private static final ObjectType<Thing> THING = Thing.on(StorageTier.REMOTE);

    /// May also lie in persistent memory.
    private static final ObjectType<Thing> EITHER = Thing.on(StorageTier.PMEM, StorageTier.REMOTE);

    /// What is done to a rig's pool.
    private interface Work {
        void on(PoolRig rig);
    }

    /// Something that programs do, and what must be there for it.
    record Step(String name, Work prepare, Work work) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static byte[] bytes(int seed, int length) {
        byte[] bytes = new byte[length];
        Arrays.fill(bytes, (byte) seed);
        return bytes;
    }

    private static void make(Pool pool, String root, int length) {
        pool.transact(() -> {
            Thing thing = pool.create(THING);
            thing.setBytes(bytes(root.hashCode(), length));
            pool.root(root, THING).set(thing);
        });
    }

    private static Thing thing(Pool pool, String root) {
        return Objects.requireNonNull(pool.root(root, THING).get());
    }

    private static void makeTwo(PoolRig rig) {
        rig.pool()
                .transact(() -> {
                    make(rig.pool(), "a", 100);
                    make(rig.pool(), "b", 300);
                });
    }

    private static void makeSeveral(PoolRig rig) {
        for (int i = 0; i < 3; i++) {
            make(rig.pool(), "a" + i, 50 + i);
        }
        rig.pool()
                .transact(() -> {
                    make(rig.pool(), "b", 100);
                    make(rig.pool(), "c", 500);
                });
        thing(rig.pool(), "c").setBytes(null);
    }

    private static void makeEither(PoolRig rig) {
        rig.pool()
                .transact(() -> {
                    for (int i = 0; i < 3; i++) {
                        Thing thing = rig.pool().create(EITHER);
                        thing.setBytes(bytes(i, 100));
                        rig.pool().root("either " + i, EITHER).set(thing);
                    }
                });
    }

    private static void makeRoom(PoolRig rig) {
        assertTrue(rig.pool().balancer().makeRoom());
    }

    private static Step change(String name, Work work) {
        return new Step(name, RemoteCrashTest::makeTwo, work);
    }

    static Stream<Step> steps() {
        return Stream.of(
                new Step("the first segment", _ -> {}, RemoteCrashTest::makeTwo),
                change("another segment", rig -> make(rig.pool(), "c", 200)),
                change("overwrite", rig -> thing(rig.pool(), "a").setBytes(bytes(5, 120))),
                change(
                        "overwrite all of a segment",
                        rig ->
                                rig.pool()
                                        .transact(() -> {
                                            thing(rig.pool(), "a").setBytes(bytes(5, 120));
                                            thing(rig.pool(), "b").setBytes(bytes(6, 20));
                                        })),
                change(
                        "free a segment",
                        rig -> {
                            thing(rig.pool(), "a").setBytes(null);
                            thing(rig.pool(), "b").setBytes(null);
                            make(rig.pool(), "a", 77);
                        }),
                change(
                        "free a segment that cannot be reached",
                        rig -> {
                            rig.segments().reachable(false);
                            thing(rig.pool(), "a").setBytes(null);
                            thing(rig.pool(), "b").setBytes(null);
                            rig.segments().reachable(true);
                            make(rig.pool(), "a", 77);
                            thing(rig.pool(), "a").setBytes(null);
                        }),
                change(
                        "a transaction over tiers",
                        rig ->
                                rig.pool()
                                        .transact(() -> {
                                            thing(rig.pool(), "a").setBytes(bytes(5, 120));
                                            thing(rig.pool(), "b").setText("x");
                                            DurablePerson person = DurablePerson.create(rig.pool());
                                            person.setImage(new byte[3000]);
                                            rig.pool()
                                                    .root("person", DurablePerson.TYPE)
                                                    .set(person);
                                        })),
                change(
                        "a transaction that is rolled back",
                        rig -> {
                            assertThrows(
                                    IllegalStateException.class,
                                    () ->
                                            rig.pool()
                                                    .transact(() -> {
                                                        thing(rig.pool(), "a")
                                                                .setBytes(bytes(5, 120));
                                                        throw new IllegalStateException(
                                                                "on purpose");
                                                    }));
                            thing(rig.pool(), "a").setBytes(bytes(6, 121));
                        }),
                change(
                        "a segment that has no room",
                        rig -> {
                            rig.segments().full(true);
                            assertThrows(
                                    PoolFullException.class,
                                    () -> thing(rig.pool(), "a").setBytes(bytes(5, 120)));
                            rig.segments().full(false);
                            thing(rig.pool(), "a").setBytes(bytes(6, 121));
                        }),
                change(
                        "delete and make anew",
                        rig -> {
                            rig.pool()
                                    .transact(() -> {
                                        Thing a = thing(rig.pool(), "a");
                                        rig.pool().root("a", THING).set(null);
                                        a.delete();
                                    });
                            make(rig.pool(), "a", 60);
                        }),
                new Step("compact", RemoteCrashTest::makeSeveral, rig -> rig.pool().compact()),
                new Step(
                        "leave persistent memory",
                        RemoteCrashTest::makeEither,
                        RemoteCrashTest::makeRoom),
                new Step(
                        "come back to persistent memory",
                        rig -> {
                            makeEither(rig);
                            makeRoom(rig);
                        },
                        rig -> {
                            rig.pool().balancer().promoteAll();
                            assertEquals(300, rig.pool().promotedBytes());
                        }),
                new Step(
                        "compact and free",
                        RemoteCrashTest::makeSeveral,
                        rig -> {
                            rig.pool().compact();
                            thing(rig.pool(), "a1").setBytes(null);
                            thing(rig.pool(), "b").setBytes(bytes(9, 9));
                        }));
    }

    /// What there is to see, as text.
    private static String look(Pool pool) {
        StringBuilder text = new StringBuilder();
        for (String root : pool.rootNames()) {
            if (root.equals("person")) {
                DurablePerson person = pool.root(root, DurablePerson.TYPE).get();
                text.append(root).append(person == null ? "" : person.contents());
            } else {
                @Nullable Thing thing =
                        pool.root(root, root.startsWith("either") ? EITHER : THING).get();
                text.append(root)
                        .append(
                                thing == null
                                        ? ""
                                        : Arrays.hashCode(thing.getBytes()) + thing.getText());
            }
        }
        return text.toString();
    }

    private static PoolRig rig(Step step) {
        PoolRig rig = new PoolRig(true);
        step.prepare().on(rig);
        return rig;
    }

    @ParameterizedTest
    @MethodSource("steps")
    void whatACrashLeavesIsAState(Step step) {
        try (PoolRig rig = rig(step)) {
            CrashHistory history =
                    CrashHistory.of(rig, _ -> step.work().on(rig), RemoteCrashTest::look);
            int states = 0;
            for (boolean readOnly : new boolean[] {false, true}) {
                states +=
                        rig.forEachCrash(
                                readOnly,
                                (happened, found) -> {
                                    history.check(happened, found.read(() -> look(found)));
                                    assertEquals(List.of(), found.check().problems());
                                });
            }
            assertTrue(states > 20, states + " states");
            assertEquals(history.states().getLast(), look(rig.pool()));
        }
    }

    @ParameterizedTest
    @MethodSource("steps")
    void aCrashOfRecoveryLeavesAState(Step step) {
        try (PoolRig rig = rig(step)) {
            CrashHistory history =
                    CrashHistory.of(rig, _ -> step.work().on(rig), RemoteCrashTest::look);
            int states =
                    rig.forEachCrashOfRecovery(
                            (happened, found) -> history.check(happened, look(found)));
            assertTrue(states > 20, states + " states");
        }
    }

    /// A mistake that a remote tier may make: what has happened then.
    enum Bug {
        COMMIT_BEFORE_THE_SEGMENT_IS_DURABLE {
            @Override
            List<Event> of(List<Event> events) {
                return events.stream()
                        .filter(event -> !(event instanceof Event.SegmentDurable))
                        .toList();
            }
        },
        SEGMENT_DELETED_BEFORE_THE_COMMIT {
            @Override
            List<Event> of(List<Event> events) {
                List<Event> moved =
                        new ArrayList<>(
                                events.stream()
                                        .filter(Event.SegmentDeleted.class::isInstance)
                                        .toList());
                events.stream()
                        .filter(event -> !(event instanceof Event.SegmentDeleted))
                        .forEach(moved::add);
                return moved;
            }
        },
        NUMBER_NOT_DURABLE {
            @Override
            List<Event> of(List<Event> events) {
                return events.stream()
                        .filter(event ->
                                !(event instanceof Event.Flushed(_, long offset, _)
                                        && offset == Superblock.REMOTE_NEXT_AT))
                        .toList();
            }
        },
        RECORD_GONE_BEFORE_THE_SEGMENT {
            @Override
            List<Event> of(List<Event> events) {
                return events.stream()
                        .filter(event -> !(event instanceof Event.SegmentDeleted))
                        .toList();
            }
        };

        abstract List<Event> of(List<Event> events);
    }

    private static boolean isFound(@Nullable Bug bug) {
        for (Step step : steps().toList()) {
            try (PoolRig rig = rig(step)) {
                CrashHistory history =
                        CrashHistory.of(rig, _ -> step.work().on(rig), RemoteCrashTest::look);
                List<Event> events = bug == null ? rig.events() : bug.of(rig.events());
                try {
                    rig.forEachCrash(events, false, (_, found) -> history.check(0, look(found)));
                } catch (AssertionError | TerraceException found) {
                    return true;
                }
            }
        }
        return false;
    }

    @Test
    void withoutAMistakeNoneIsFound() {
        assertFalse(isFound(null));
    }

    @ParameterizedTest
    @EnumSource
    void aMistakeIsFound(Bug bug) {
        assertTrue(isFound(bug));
    }
}
