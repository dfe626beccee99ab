package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Every state that a power cut may leave of what programs do is one between two commits, also for who may only read, and none older
/// than what had returned.
class CrashTest {
    private static final String LONG = "a text that is longer than a slot holds";

    /// Something that programs do, and what must be there for it.
    record Step(String name, Consumer<Pool> prepare, Consumer<Pool> work) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static DurablePerson bob(Pool pool) {
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
        return Stream.of(
                new Step("make", pool -> {}, CrashTest::makeBob),
                change("set a number", bob -> bob.setAge(2)),
                change("set a boxed number", bob -> bob.setHeight((short) 7)),
                change("set a boxed number to null", bob -> bob.setHeight(null)),
                change("set a string", bob -> bob.setPlace(LONG + LONG)),
                change("set a short string", bob -> bob.setPlace("x")),
                change("set a string to null", bob -> bob.setPlace(null)),
                change("set a string where there was none", bob -> bob.setName(LONG)),
                change("set an array on disk", bob -> bob.setImage(new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10})),
                change("set a large array on disk", bob -> bob.setImage(new byte[100_000])),
                change("set an array in the record", bob -> bob.setRow(new double[] {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12})),
                change("set an element", bob -> bob.setRow(5, 1.5)),
                change("set a number on disk", bob -> bob.setBalance(77)),
                change("set an enum", bob -> bob.setMood(DurablePerson.Mood.BAD)),
                change("set a reference", bob -> bob.setFriend(bob)),
                change("set one thing after the other", bob -> {
                    bob.setAge(2);
                    bob.setPlace(LONG + "2");
                    bob.setAge(3);
                    bob.setPlace(LONG + "3");
                }),
                change("delete and make anew", bob -> {
                    Pool pool = bob.pool();
                    pool.transact(() -> {
                        pool.root("bob", DurablePerson.TYPE).set(null);
                        bob.delete();
                    });
                    makeBob(pool);
                }),
                change("a transaction over tiers", bob -> bob.pool().transact(() -> {
                    bob.setAge(2);
                    bob.setPlace(LONG + "2");
                    bob.setImage(new byte[7000]);
                    bob.setBalance(5);
                })),
                change("a transaction that is rolled back", bob -> {
                    try {
                        bob.pool().transact(() -> {
                            bob.setAge(2);
                            bob.setPlace(LONG + "2");
                            throw new IllegalStateException("on purpose");
                        });
                    } catch (IllegalStateException expected) {
                        bob.setAge(3);
                    }
                }),
                change("many objects in one transaction", bob -> bob.pool().transact(() -> {
                    DurablePerson last = bob;
                    for (int i = 0; i < 3000; i++) {
                        DurablePerson next = DurablePerson.create(bob.pool());
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
        for (DurablePerson next = bob.getFriend(); next != null && !next.equals(bob); next = next.getFriend()) {
            friends++;
            text.append(friends % 1000 == 0 ? " " + next.contents() : "");
        }
        return text.append(" ").append(friends).append(bob.equals(bob.getFriend())).toString();
    }

    @ParameterizedTest
    @MethodSource("steps")
    void whatACrashLeavesIsAState(Step step) {
        try (PoolRig rig = PoolRig.of(step.prepare())) {
            List<@Nullable String> legal = new ArrayList<>();
            List<Integer> returned = new ArrayList<>();
            rig.begin();
            legal.add(look(rig.pool()));
            returned.add(0);
            rig.onCommit(() -> {
                legal.add(look(rig.pool()));
                returned.add(rig.happened());
            });
            step.work().accept(rig.pool());
            int states = 0;
            for (boolean readOnly : new boolean[] {false, true}) {
                states += rig.forEachCrash(readOnly, (happened, found) -> {
                    int at = legal.indexOf(found.read(() -> look(found)));
                    assertTrue(at >= 0, () -> "after " + happened + " events there is " + look(found) + ", not one of " + legal);
                    int oldest = 0;
                    while (oldest + 1 < returned.size() && returned.get(oldest + 1) <= happened) {
                        oldest++;
                    }
                    int last = legal.lastIndexOf(legal.get(at));
                    assertTrue(last >= oldest, "what had returned is gone after " + happened + " events");
                });
            }
            assertTrue(states > 2, states + " states");
            assertEquals(legal.getLast(), look(rig.pool()));
        }
    }
}
