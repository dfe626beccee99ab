package dev.terrace.objects.stress;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolClosedException;
import dev.terrace.objects.PoolOptions;
import java.nio.file.Path;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.openjdk.jcstress.annotations.Actor;
import org.openjdk.jcstress.annotations.Arbiter;
import org.openjdk.jcstress.annotations.Description;
import org.openjdk.jcstress.annotations.Expect;
import org.openjdk.jcstress.annotations.JCStressTest;
import org.openjdk.jcstress.annotations.Outcome;
import org.openjdk.jcstress.annotations.State;
import org.openjdk.jcstress.infra.results.II_Result;

/// Use of a pool beside its close. Each state opens a pool of its own, with the files of the one
/// that all tests share.
public final class CloseTests {
    private static final int CLOSED = -1;
    private static final String TEXT = "a text that is long enough";
    private static final long REFERENCE;

    /// Of pools that have the same files, and are not open.
    private static final ConcurrentLinkedQueue<Path> DIRECTORIES = new ConcurrentLinkedQueue<>();

    static {
        DurablePair made = DurablePair.create(Rig.POOL);
        made.setFirst(1);
        made.setText(TEXT);
        REFERENCE = made.reference();
    }

    private CloseTests() {}

    @JCStressTest
    @Description(
            "Getters beside close: the value, or that the pool has been closed; no crash, nothing"
                    + " else.")
    @Outcome(
            id = {"1, 1", "1, -1", "-1, -1"},
            expect = Expect.ACCEPTABLE,
            desc = "a value until it is closed")
    @Outcome(id = "-1, 1", expect = Expect.FORBIDDEN, desc = "closed, and open again")
    @Outcome(expect = Expect.FORBIDDEN, desc = "what nobody has written")
    @State
    public static class BesideGetter {
        private final Path directory;
        private final Pool pool;
        private final DurablePair pair;

        public BesideGetter() {
            Path known = DIRECTORIES.poll();
            directory = known == null ? Rig.linkedDirectory() : known;
            pool = Rig.open(directory, PoolOptions.defaults().toRead());
            pair = pool.object(DurablePair.TYPE, REFERENCE);
        }

        @Actor
        public void close() {
            pool.close();
        }

        @Actor
        public void get(II_Result seen) {
            try {
                seen.r1 = (int) Rig.look(1, pair::getFirst);
            } catch (PoolClosedException e) {
                seen.r1 = CLOSED;
            }
            try {
                seen.r2 = TEXT.equals(pair.getText()) ? 1 : 0;
            } catch (PoolClosedException e) {
                seen.r2 = CLOSED;
            }
        }

        @Arbiter
        public void end() {
            DIRECTORIES.add(directory);
        }
    }
}
