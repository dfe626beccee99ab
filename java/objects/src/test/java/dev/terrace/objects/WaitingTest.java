package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Who waits for a transaction that waits for it is told so; who waits for one that is at work waits.
class WaitingTest {
    private static final PoolOptions IMPATIENT =
            PoolOptions.defaults().extents(1 << 20).patience(Duration.ofMillis(50));
    /// Longer than any of this takes: what lasts longer hangs.
    private static final Duration FOREVER = Duration.ofSeconds(60);

    @TempDir(factory = InMemory.class)
    Path dir;

    /// What a transaction has others do.
    private interface Parts {
        void run(List<DurablePerson> people) throws Exception;
    }

    private static void run(Parts parts, List<DurablePerson> people) {
        try {
            parts.run(people);
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private void isTold(Parts parts) throws IOException, InterruptedException {
        // Nobody could close it if the transaction hung.
        Pool pool = Pool.open(dir, IMPATIENT);
        List<DurablePerson> people = IntStream.range(0, 64).mapToObj(_ -> DurablePerson.create(pool)).toList();
        AtomicReference<@Nullable Throwable> thrown = new AtomicReference<>();
        Thread thread = Thread.ofPlatform().daemon().start(() -> {
            try {
                pool.transact(() -> {
                    people.getFirst().setAge(7);
                    run(parts, people);
                });
            } catch (Throwable e) {
                thrown.set(e);
            }
        });
        assertTrue(thread.join(FOREVER), "the transaction hangs");
        Throwable cause = thrown.get();
        assertNotNull(cause);
        while (cause.getCause() != null) {
            cause = cause.getCause();
        }
        assertInstanceOf(PoolBusyException.class, cause);
        assertTrue(cause.getMessage().contains("waits for the transaction of thread"), cause.getMessage());
        assertEquals(0, people.getFirst().getAge(), "it is rolled back");
        people.getLast().setAge(3);
        assertEquals(3, people.getLast().getAge());
        pool.close();
    }

    @Test
    void aParallelStreamInATransaction() throws IOException, InterruptedException {
        isTold(people -> {
            try (ForkJoinPool threads = new ForkJoinPool(4)) {
                threads.submit(() -> people.parallelStream().forEach(person -> person.setAge(1))).get();
            }
        });
    }

    @Test
    void partsThatReadAndWriteInOtherThreads() throws IOException, InterruptedException {
        for (Parts part : List.<Parts>of(
                people -> people.getFirst().setAge(1),
                people -> people.getFirst().setName("x".repeat(100)),
                people -> DurablePerson.create(people.getFirst().pool()),
                people -> people.getFirst().pool().check(),
                people -> people.getFirst().pool().statistics())) {
            isTold(people -> {
                try (ExecutorService threads = Executors.newSingleThreadExecutor()) {
                    Future<Boolean> done = threads.submit(() -> {
                        part.run(people);
                        return true;
                    });
                    done.get();
                }
            });
        }
    }

    /// However long it takes, as long as its thread does something, or waits for a while only.
    @Test
    void aTransactionThatIsAtWorkIsWaitedFor() throws IOException, InterruptedException, ExecutionException {
        try (Pool pool = Pool.open(dir, IMPATIENT); ExecutorService threads = Executors.newSingleThreadExecutor()) {
            DurablePerson bob = DurablePerson.create(pool);
            Future<?> other = pool.transact(() -> {
                Future<?> waiting = threads.submit(() -> bob.setAge(2));
                long end = System.nanoTime() + 10 * IMPATIENT.patience().toNanos();
                while (System.nanoTime() < end) {
                    Thread.onSpinWait();
                }
                assertFalse(waiting.isDone());
                bob.setAge(1);
                return waiting;
            });
            other.get();
            assertEquals(2, bob.getAge());
        }
    }
}
