package dev.terrace.objects.stress;

import java.util.List;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Description;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;
import org.openjdk.jcstress.infra.results.I_Result;

/// Getters of texts beside setters: the old text's place is another's a moment later.
public final class TextTests {
    private static final String OLD = "o".repeat(40);
    private static final String NEW = "n".repeat(39);
    private static final String OTHER = "x".repeat(38);
    private static final List<String> TEXTS = List.of(OLD, NEW, OTHER);

    private TextTests() {}

    private static void prepare(DurablePair pair, DurablePair other) {
        Rig.POOL.transact(() -> {
            pair.setText(OLD);
            other.setText(null);
        });
    }

    private static void change(DurablePair pair, DurablePair other) {
        pair.setText(NEW);
        other.setText(OTHER);
    }

    private static int look(DurablePair pair) {
        return (int) Rig.look(1, () -> Rig.number(String.valueOf(pair.getText()), TEXTS));
    }

    @JCStressTest
    @Description(
            "The getter of a text beside a set of it, and of another text that takes the old one's"
                    + " place.")
    @Outcome(
            id = {"1", "2"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(id = "3", expect = Expect.FORBIDDEN, desc = "another object's")
    @Outcome(expect = Expect.FORBIDDEN, desc = "a mixture")
    @State
    public static class InProcess {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());
        private final DurablePair other = Rig.pair(Rig.nextPlace());

        public InProcess() {
            prepare(pair, other);
        }

        @Actor
        public void set() {
            change(pair, other);
        }

        @Actor
        public void get(I_Result seen) {
            seen.r1 = look(pair);
        }
    }

    @JCStressTest
    @Description("The same of a pool that is only read.")
    @Outcome(
            id = {"1", "2"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(id = "3", expect = Expect.FORBIDDEN, desc = "another object's")
    @Outcome(expect = Expect.FORBIDDEN, desc = "a mixture")
    @State
    public static class OnlyReading {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());
        private final DurablePair other = Rig.pair(Rig.nextPlace());
        private final DurablePair same = Rig.reader(pair);

        public OnlyReading() {
            prepare(pair, other);
        }

        @Actor
        public void set() {
            change(pair, other);
        }

        @Actor
        public void get(I_Result seen) {
            seen.r1 = look(same);
        }
    }

    @JCStressTest
    @Description(
            "A comparison with the text that takes the old one's place, which was never this"
                    + " object's; by a pool that is only read.")
    @Outcome(
            id = {"0, 0", "0, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(expect = Expect.FORBIDDEN, desc = "another object's")
    @State
    public static class Compared {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());
        private final DurablePair other = Rig.pair(Rig.nextPlace());
        private final DurablePair same = Rig.reader(pair);

        public Compared() {
            prepare(pair, other);
        }

        @Actor
        public void set() {
            change(pair, other);
        }

        @Actor
        public void get(II_Result seen) {
            seen.r1 = (int) Rig.look(0, () -> same.textEquals(OTHER) ? 1 : 0);
            seen.r2 = same.textEquals(NEW) ? 1 : 0;
        }
    }
}
