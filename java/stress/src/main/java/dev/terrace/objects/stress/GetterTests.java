package dev.terrace.objects.stress;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Description;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.JJ_Result;
import org.openjdk.jcstress.infra.results.J_Result;

/// Getters of numbers beside setters.
public final class GetterTests {
    private GetterTests() {}

    @JCStressTest
    @Description("A getter beside a set: the value before, or the value after, never a part of it.")
    @Outcome(
            id = {"0", "-1"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(expect = Expect.FORBIDDEN, desc = "torn")
    @State
    public static class BesideSet {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());

        public BesideSet() {
            pair.setFirst(0);
        }

        @Actor
        public void set() {
            pair.setFirst(-1);
        }

        @Actor
        public void get(J_Result seen) {
            seen.r1 = Rig.look(0, pair::getFirst);
        }
    }

    @JCStressTest
    @Description(
            "Sets are seen in the order in which they were done: who sees the second sees the"
                    + " first.")
    @Outcome(
            id = {"0, 0", "0, 1", "1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "none, the first, both")
    @Outcome(id = "1, 0", expect = Expect.FORBIDDEN, desc = "the second without the first")
    @State
    public static class InOrder {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());

        public InOrder() {
            Rig.clearBoth(pair);
        }

        @Actor
        public void set() {
            pair.setFirst(1);
            pair.setSecond(1);
        }

        @Actor
        public void get(JJ_Result seen) {
            seen.r1 =
                    Rig.look(
                            0,
                            () -> {
                                long second = pair.getSecond();
                                seen.r2 = pair.getFirst();
                                return second;
                            });
        }
    }

    @JCStressTest
    @Description(
            "Getters without a consistent read beside a transaction: each value is of a commit, not"
                    + " all of the same.")
    @Outcome(
            id = {"0, 0", "1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(
            id = {"0, 1", "1, 0"},
            expect = Expect.ACCEPTABLE_INTERESTING,
            desc = "one before, one after")
    @Outcome(expect = Expect.FORBIDDEN, desc = "what nobody has committed")
    @State
    public static class BesideTransaction {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());

        public BesideTransaction() {
            Rig.clearBoth(pair);
        }

        @Actor
        public void set() {
            Rig.POOL.transact(() -> {
                pair.setFirst(7);
                pair.setFirst(1);
                pair.setSecond(1);
            });
        }

        @Actor
        public void get(JJ_Result seen) {
            Rig.look(
                    0,
                    () -> {
                        seen.r1 = pair.getFirst();
                        seen.r2 = pair.getSecond();
                        return seen.r1 + seen.r2;
                    });
        }
    }

    @JCStressTest
    @Description("A getter beside a transaction that is rolled back.")
    @Outcome(id = "0, 0", expect = Expect.ACCEPTABLE, desc = "before")
    @Outcome(expect = Expect.FORBIDDEN, desc = "what nobody has committed")
    @State
    public static class BesideRollback {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());

        public BesideRollback() {
            Rig.clearBoth(pair);
        }

        @Actor
        public void set() {
            try {
                Rig.POOL.transact(() -> {
                    pair.setFirst(1);
                    pair.setSecond(1);
                    throw new IllegalArgumentException("no");
                });
            } catch (IllegalArgumentException expected) {
                return;
            }
        }

        @Actor
        public void get(JJ_Result seen) {
            seen.r1 = Rig.look(0, pair::getFirst);
            seen.r2 = Rig.POOL.read(pair::getSecond);
        }
    }
}
