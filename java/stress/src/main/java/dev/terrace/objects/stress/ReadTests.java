package dev.terrace.objects.stress;

import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Description;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.JJ_Result;

/// Consistent reads beside transactions.
public final class ReadTests {
    private ReadTests() {}

    @JCStressTest
    @Description("A consistent read beside a transaction sees all of it or nothing.")
    @Outcome(
            id = {"0, 0", "1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(expect = Expect.FORBIDDEN, desc = "a part of a transaction")
    @State
    public static class InProcess {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());

        public InProcess() {
            Rig.clearBoth(pair);
        }

        @Actor
        public void set() {
            Rig.setBoth(pair);
        }

        @Actor
        public void get(JJ_Result seen) {
            Rig.look(
                    0,
                    () ->
                            Rig.POOL.read(() -> {
                                seen.r1 = pair.getFirst();
                                seen.r2 = pair.getSecond();
                                return seen.r1 + seen.r2;
                            }));
        }
    }

    @JCStressTest
    @Description(
            "The same of a pool that is only read, as another process reads it: no lock is shared"
                    + " with who writes.")
    @Outcome(
            id = {"0, 0", "1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(expect = Expect.FORBIDDEN, desc = "a part of a transaction")
    @State
    public static class OnlyReading {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());
        private final DurablePair same = Rig.reader(pair);

        public OnlyReading() {
            Rig.clearBoth(pair);
        }

        @Actor
        public void set() {
            Rig.setBoth(pair);
        }

        @Actor
        public void get(JJ_Result seen) {
            Rig.look(
                    0,
                    () ->
                            Rig.READER.read(() -> {
                                seen.r1 = same.getFirst();
                                seen.r2 = same.getSecond();
                                return seen.r1 + seen.r2;
                            }));
        }
    }

    @JCStressTest
    @Description("Two consistent reads: what the first has seen the second sees as well.")
    @Outcome(
            id = {"0, 0", "0, 1", "1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "time passes")
    @Outcome(id = "1, 0", expect = Expect.FORBIDDEN, desc = "time goes back")
    @State
    public static class Twice {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());
        private final DurablePair same = Rig.reader(pair);

        public Twice() {
            Rig.clearBoth(pair);
        }

        @Actor
        public void set() {
            Rig.setBoth(pair);
        }

        @Actor
        public void get(JJ_Result seen) {
            seen.r1 =
                    Rig.look(
                            0,
                            () -> {
                                long first = Rig.READER.read(same::getFirst);
                                seen.r2 = Rig.READER.read(same::getSecond);
                                return first;
                            });
        }
    }
}
