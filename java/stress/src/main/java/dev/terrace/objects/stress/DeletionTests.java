package dev.terrace.objects.stress;

import dev.terrace.objects.StaleReferenceException;
import dev.terrace.objects.internal.store.References;
import java.util.Arrays;
import java.util.function.LongSupplier;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Description;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.JI_Result;

/// Getters beside the deletion of their object, in whose place another is made at once. The second
/// result is 1 if it is the same place: without that the tests would show nothing.
public final class DeletionTests {
    private static final long STALE = -1;
    private static final long MIXED = -2;
    private static final String OLD = "o".repeat(40);
    private static final String NEW = "n".repeat(39);

    private DeletionTests() {}

    /// Deletes the object there, and makes another.
    static int replace(int place, DurablePair old) {
        old.delete();
        DurablePair next = Rig.POOL.transact(() -> fill(DurablePair.create(Rig.POOL), 2, NEW));
        Rig.set(place, next);
        return References.recordOf(old.reference()) == References.recordOf(next.reference())
                ? 1
                : 0;
    }

    static DurablePair prepare(int place) {
        return Rig.POOL.transact(() -> fill(Rig.renew(place), 1, OLD));
    }

    private static DurablePair fill(DurablePair pair, int number, String text) {
        pair.setFirst(number);
        pair.setText(text);
        long[] row = new long[Pair.LENGTH];
        Arrays.fill(row, number);
        pair.setRow(row);
        return pair;
    }

    /// The result of a getter for an object that may be gone: the first read that is not of the old
    /// object, or that it is gone.
    private static long lookOrStale(LongSupplier getter) {
        try {
            return Rig.look(1, getter);
        } catch (StaleReferenceException e) {
            return STALE;
        }
    }

    @JCStressTest
    @Description("A getter beside the deletion of its object.")
    @Outcome(
            id = {"1, 0", "1, 1", "-1, 0", "-1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "the old value, or that it is gone")
    @Outcome(
            id = {"2, 0", "2, 1"},
            expect = Expect.FORBIDDEN,
            desc = "the new object's value")
    @Outcome(expect = Expect.FORBIDDEN, desc = "what was in between")
    @State
    public static class InProcess {
        private final int place = Rig.nextPlace();
        private final DurablePair pair = prepare(place);

        @Actor
        public void replace(JI_Result seen) {
            seen.r2 = DeletionTests.replace(place, pair);
        }

        @Actor
        public void get(JI_Result seen) {
            seen.r1 = lookOrStale(pair::getFirst);
        }
    }

    @JCStressTest
    @Description("The same of a pool that is only read, which counts no deletions.")
    @Outcome(
            id = {"1, 0", "1, 1", "-1, 0", "-1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "the old value, or that it is gone")
    @Outcome(
            id = {"2, 0", "2, 1"},
            expect = Expect.FORBIDDEN,
            desc = "the new object's value")
    @Outcome(expect = Expect.FORBIDDEN, desc = "what was in between")
    @State
    public static class OnlyReading {
        private final int place = Rig.nextPlace();
        private final DurablePair pair = prepare(place);
        private final DurablePair same = Rig.reader(pair);

        @Actor
        public void replace(JI_Result seen) {
            seen.r2 = DeletionTests.replace(place, pair);
        }

        @Actor
        public void get(JI_Result seen) {
            seen.r1 = lookOrStale(same::getFirst);
        }
    }

    @JCStressTest
    @Description("An array's copy beside the deletion of its object.")
    @Outcome(
            id = {"1, 0", "1, 1", "-1, 0", "-1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "the old array, or that it is gone")
    @Outcome(
            id = {"2, 0", "2, 1"},
            expect = Expect.FORBIDDEN,
            desc = "the new object's array")
    @Outcome(expect = Expect.FORBIDDEN, desc = "what was in between")
    @State
    public static class Copy {
        private final int place = Rig.nextPlace();
        private final DurablePair pair = prepare(place);

        @Actor
        public void replace(JI_Result seen) {
            seen.r2 = DeletionTests.replace(place, pair);
        }

        @Actor
        public void get(JI_Result seen) {
            long[] row = new long[Pair.LENGTH];
            seen.r1 =
                    lookOrStale(() -> {
                        pair.copyRow(row);
                        return ArrayTests.same(row);
                    });
        }
    }

    @JCStressTest
    @Description(
            "The getter of a text, of a pool that is only read, beside the deletion of its object.")
    @Outcome(
            id = {"1, 0", "1, 1", "-1, 0", "-1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "the old text, or that it is gone")
    @Outcome(
            id = {"2, 0", "2, 1"},
            expect = Expect.FORBIDDEN,
            desc = "the new object's text")
    @Outcome(expect = Expect.FORBIDDEN, desc = "what was in between")
    @State
    public static class Text {
        private final int place = Rig.nextPlace();
        private final DurablePair pair = prepare(place);
        private final DurablePair same = Rig.reader(pair);

        @Actor
        public void replace(JI_Result seen) {
            seen.r2 = DeletionTests.replace(place, pair);
        }

        @Actor
        public void get(JI_Result seen) {
            seen.r1 =
                    lookOrStale(() -> {
                        String text = same.getText();
                        return OLD.equals(text) ? 1 : NEW.equals(text) ? 2 : MIXED;
                    });
        }
    }
}
