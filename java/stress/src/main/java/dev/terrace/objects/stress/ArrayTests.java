package dev.terrace.objects.stress;

import java.util.Arrays;
import java.util.Objects;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Description;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.JJ_Result;
import org.openjdk.jcstress.infra.results.J_Result;

/// Arrays that are read beside a set of all their elements.
public final class ArrayTests {
    private static final int LENGTH = 12;
    private static final long MIXED = -2;

    private ArrayTests() {}

    /// The value that all elements have.
    static long same(long[] elements) {
        for (long element : elements) {
            if (element != elements[0]) {
                return MIXED;
            }
        }
        return elements[0];
    }

    private static long[] all(int length, long value) {
        long[] elements = new long[length];
        Arrays.fill(elements, value);
        return elements;
    }

    @JCStressTest
    @Description("The copy of an array within the record is of one commit.")
    @Outcome(
            id = {"1", "2"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(expect = Expect.FORBIDDEN, desc = "elements of several commits")
    @State
    public static class InRecord {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());

        public InRecord() {
            pair.setRow(all(Pair.LENGTH, 1));
        }

        @Actor
        public void set() {
            pair.setRow(all(Pair.LENGTH, 2));
        }

        @Actor
        public void get(J_Result seen) {
            long[] row = new long[Pair.LENGTH];
            seen.r1 =
                    Rig.look(
                            1,
                            () -> {
                                pair.copyRow(row);
                                return same(row);
                            });
        }
    }

    @JCStressTest
    @Description(
            "The copy of an array behind a slot is of one commit, also in a pool that is only"
                    + " read.")
    @Outcome(
            id = {"1, 1", "1, 2", "2, 2"},
            expect = Expect.ACCEPTABLE,
            desc = "each before or after")
    @Outcome(id = "2, 1", expect = Expect.FORBIDDEN, desc = "time goes back")
    @Outcome(expect = Expect.FORBIDDEN, desc = "elements of several commits")
    @State
    public static class BehindSlot {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());
        private final DurablePair same = Rig.reader(pair);

        public BehindSlot() {
            pair.setList(all(LENGTH, 1));
        }

        @Actor
        public void set() {
            pair.setList(all(LENGTH, 2));
            Rig.SPARE.setList(all(LENGTH, 3));
        }

        @Actor
        public void get(JJ_Result seen) {
            long[] list = new long[LENGTH];
            seen.r1 =
                    Rig.look(
                            1,
                            () -> {
                                pair.copyList(list);
                                seen.r2 = same(Objects.requireNonNull(same.getList()));
                                return same(list);
                            });
        }
    }

    @JCStressTest
    @Description(
            "An element of an array behind a slot beside sets of the array, of another length.")
    @Outcome(
            id = {"1, 1", "1, 2", "2, 2"},
            expect = Expect.ACCEPTABLE,
            desc = "each before or after")
    @Outcome(id = "2, 1", expect = Expect.FORBIDDEN, desc = "time goes back")
    @Outcome(expect = Expect.FORBIDDEN, desc = "no element of it")
    @State
    public static class Element {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());
        private final DurablePair same = Rig.reader(pair);

        public Element() {
            pair.setList(all(LENGTH, 1));
        }

        @Actor
        public void set() {
            pair.setList(all(LENGTH + 2, 2));
            Rig.SPARE.setList(all(LENGTH, 3));
        }

        @Actor
        public void get(JJ_Result seen) {
            seen.r1 =
                    Rig.look(
                            1,
                            () -> {
                                long element = pair.getList(LENGTH - 1);
                                seen.r2 = same.getList(LENGTH - 1);
                                return element;
                            });
        }
    }
}
