package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Random;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Processes that are killed while they write, and others that look on.
class KillTest {
    private static final int ROUNDS = 20;
    private static final int STEPS_MAX = 40;
    private static final int DELAY_NANOS_MAX = 2_000_000;

    @TempDir Path disk;

    private Path pool = Path.of("");

    @BeforeEach
    void make() throws IOException {
        pool = SharedMemory.directory();
        try (Pool made = Pool.open(pool, KillWorkload.options(disk))) {
            new KillWorkload(made).prepare();
        }
    }

    @AfterEach
    void remove() throws IOException {
        SharedMemory.delete(pool);
    }

    private ChildJvm start(String role) throws IOException {
        return new ChildJvm(KillWorkload.Main.class, role, pool, disk);
    }

    @Test
    void whatWasAcknowledgedIsThereAndNothingTorn() throws Exception {
        Random random = new Random(1);
        try (ChildJvm reader = start("read")) {
            assertEquals(0, Integer.parseInt(reader.expectLine()));
            int acknowledged = 0;
            for (int round = 0; round < ROUNDS; round++) {
                acknowledged = round(random, acknowledged, reader);
            }
            reader.say("end");
            assertTrue(Integer.parseInt(reader.expectLine()) > ROUNDS);
            assertEquals(0, reader.await(), reader.errors());
            try (Pool found = Pool.open(pool, KillWorkload.options(disk))) {
                int last = new KillWorkload(found).verify();
                assertTrue(
                        last == acknowledged || last == acknowledged + 1,
                        last + " after " + acknowledged);
            }
        }
    }

    /// A writer that opens the pool as the last one left it, works, and is killed.
    ///
    /// @return the last transaction that it acknowledged
    private int round(Random random, int acknowledged, ChildJvm reader) throws IOException {
        try (ChildJvm writer = start("write")) {
            int found = Integer.parseInt(writer.expectLine());
            assertTrue(
                    found == acknowledged || found == acknowledged + 1,
                    found + " after " + acknowledged);
            int last = found;
            for (int steps = random.nextInt(STEPS_MAX); steps > 0; steps--) {
                last = Integer.parseInt(writer.expectLine());
            }
            long end = System.nanoTime() + random.nextInt(DELAY_NANOS_MAX);
            while (System.nanoTime() < end) {
                Thread.onSpinWait();
            }
            writer.kill();
            for (String line = writer.line(); line != null; line = writer.line()) {
                last = Integer.parseInt(line);
            }
            // Nobody has mended anything yet.
            reader.say("look");
            int seen = Integer.parseInt(reader.expectLine());
            assertTrue(seen == last || seen == last + 1, seen + " is read after " + last);
            return last;
        }
    }

    @Test
    void oneProcessWrites() throws Exception {
        try (ChildJvm writer = start("write")) {
            assertEquals("0", writer.expectLine());
            PoolOptions options = KillWorkload.options(disk);
            PoolLockedException refused =
                    assertThrows(PoolLockedException.class, () -> Pool.open(pool, options));
            assertTrue(refused.getMessage().contains("another process"), refused.getMessage());
            try (Pool found = Pool.open(pool, options.toRead())) {
                new KillWorkload(found).verify();
            }
            writer.kill();
        }
        try (Pool found = Pool.open(pool, KillWorkload.options(disk))) {
            int last = new KillWorkload(found).verify();
            try (ChildJvm other = start("write")) {
                assertEquals(1, other.await());
                assertTrue(other.errors().contains("PoolLockedException"), other.errors());
            }
            new KillWorkload(found).step(last + 1);
            assertEquals(last + 1, new KillWorkload(found).verify());
        }
    }
}
