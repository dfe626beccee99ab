package dev.terrace.objects.stress;

import dev.terrace.objects.Layout;
import dev.terrace.objects.internal.collections.Heap;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.References;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Text;
import java.lang.foreign.MemorySegment;
import java.util.List;
import java.util.Objects;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Description;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.I_Result;
import org.openjdk.jcstress.infra.results.JJ_Result;
import org.openjdk.jcstress.infra.results.J_Result;

/// Mistakes that must be found: readers that leave out what makes those of the library right. Each
/// fails when it is run.
public final class PlantedTests {
    private static final String OLD = "o".repeat(40);
    private static final String NEW = "n".repeat(39);
    private static final String OTHER = "x".repeat(38);
    private static final List<String> TEXTS = List.of(OLD, NEW, OTHER);
    private static final Layout LAYOUT = Layout.of(DurablePair.TYPE.fields());
    private static final Region PMEM = Heap.of(Rig.POOL).store().pmem();

    private PlantedTests() {}

    private static long at(DurablePair pair, String field) {
        int index = 0;
        while (!DurablePair.TYPE.fields().get(index).name().equals(field)) {
            index++;
        }
        return References.recordOf(pair.reference()) + LAYOUT.offsets()[index];
    }

    @JCStressTest
    @Description("A getter that does not look whether its object is still there.")
    @Outcome(id = "1", expect = Expect.ACCEPTABLE, desc = "the old value")
    @Outcome(expect = Expect.FORBIDDEN, desc = "the new object's value, or what was in between")
    @State
    public static class GetterWithoutCheck {
        private final int place = Rig.nextPlace();
        private final DurablePair pair = DeletionTests.prepare(place);

        @Actor
        public void replace() {
            DeletionTests.replace(place, pair);
        }

        @Actor
        public void get(J_Result seen) {
            long at = at(pair, "first");
            seen.r1 = Rig.look(1, () -> PMEM.getLong(at));
        }
    }

    @JCStressTest
    @Description("A text that is read, again and again, without another look at its slot.")
    @Outcome(
            id = {"1", "2"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(expect = Expect.FORBIDDEN, desc = "another's, or a mixture")
    @State
    public static class TextWithoutSecondLook {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());
        private final DurablePair other = Rig.pair(Rig.nextPlace());

        public TextWithoutSecondLook() {
            Rig.POOL.transact(() -> {
                pair.setText(OLD);
                other.setText(null);
            });
        }

        @Actor
        public void set() {
            pair.setText(NEW);
            other.setText(OTHER);
        }

        @Actor
        public void get(I_Result seen) {
            long slot = PMEM.getLong(at(pair, "text"));
            long buffer = Objects.requireNonNull(Buffers.place(slot)).offset();
            seen.r1 =
                    (int)
                            Rig.look(
                                    1,
                                    () -> {
                                        byte[] bytes = new byte[(int) PMEM.getLong(buffer + 8)];
                                        PMEM.get(
                                                buffer + 16,
                                                MemorySegment.ofArray(bytes),
                                                0,
                                                bytes.length);
                                        return bytes.length == 0
                                                ? 0
                                                : Rig.number(
                                                        String.valueOf(Text.decode(bytes)), TEXTS);
                                    });
        }
    }

    @JCStressTest
    @Description("A read of two values that is not repeated when a commit comes in between.")
    @Outcome(
            id = {"0, 0", "1, 1"},
            expect = Expect.ACCEPTABLE,
            desc = "before or after")
    @Outcome(expect = Expect.FORBIDDEN, desc = "a part of a transaction")
    @State
    public static class ReadWithoutSequence {
        private final DurablePair pair = Rig.pair(Rig.nextPlace());

        public ReadWithoutSequence() {
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
                    () -> {
                        seen.r1 = pair.getFirst();
                        seen.r2 = pair.getSecond();
                        return seen.r1 + seen.r2;
                    });
        }
    }
}
