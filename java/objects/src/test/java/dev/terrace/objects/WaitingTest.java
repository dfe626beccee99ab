package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.Delay;
import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A thread that waits for a transaction that waits for it is told so; one that waits for a
/// transaction at work waits, and keeps its turn.
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
        isTold(Thread.ofPlatform().daemon(), parts);
    }

    private void isTold(Thread.Builder builder, Parts parts)
            throws IOException, InterruptedException {
        // Nobody could close it if the transaction hung.
        Pool pool = Pool.open(dir, IMPATIENT);
        List<DurablePerson> people =
                IntStream.range(0, 64).mapToObj(_ -> DurablePerson.create(pool)).toList();
        AtomicReference<@Nullable Throwable> thrown = new AtomicReference<>();
        Thread thread =
                builder.start(() -> {
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
        assertTrue(
                cause.getMessage().contains("waits for the transaction of thread"),
                cause.getMessage());
        assertEquals(0, people.getFirst().getAge(), "it is rolled back");
        people.getLast().setAge(3);
        assertEquals(3, people.getLast().getAge());
        pool.close();
    }

    @Test
    void aParallelStreamInATransaction() throws IOException, InterruptedException {
        isTold(people -> {
            try (ForkJoinPool threads = new ForkJoinPool(4)) {
                threads.submit(() -> people.parallelStream().forEach(person -> person.setAge(1)))
                        .get();
            }
        });
    }

    @Test
    void partsThatReadAndWriteInOtherThreads() throws IOException, InterruptedException {
        for (Parts part :
                List.<Parts>of(
                        people -> people.getFirst().setAge(1),
                        people -> people.getFirst().setName("x".repeat(100)),
                        people -> DurablePerson.create(people.getFirst().pool()),
                        people -> people.getFirst().pool().check())) {
            isTold(people -> {
                try (ExecutorService threads = Executors.newSingleThreadExecutor()) {
                    Future<Boolean> done =
                            threads.submit(() -> {
                                part.run(people);
                                return true;
                            });
                    done.get();
                }
            });
        }
    }

    @Test
    void partsWhoseEndIsAwaitedForALimitedTime() throws IOException, InterruptedException {
        for (Supplier<ExecutorService> executor :
                List.<Supplier<ExecutorService>>of(
                        () -> Executors.newFixedThreadPool(2),
                        Executors::newVirtualThreadPerTaskExecutor,
                        () -> new ForkJoinPool(2))) {
            for (Thread.Builder builder :
                    List.of(Thread.ofPlatform().daemon(), Thread.ofVirtual())) {
                isTold(
                        builder,
                        people -> {
                            List<Future<?>> parts;
                            // The end of the block awaits them, for a day.
                            try (ExecutorService threads = executor.get()) {
                                parts =
                                        people.stream()
                                                .<Future<?>>map(person ->
                                                        threads.submit(() -> person.setAge(1)))
                                                .toList();
                            }
                            for (Future<?> part : parts) {
                                part.get();
                            }
                        });
            }
        }
    }

    @Test
    void aThreadThatIsJoinedForALimitedTime() throws IOException, InterruptedException {
        isTold(people -> {
            FutureTask<Integer> part = new FutureTask<>(() -> people.getFirst().setAge(1), 1);
            Thread.ofPlatform().daemon().start(part).join(FOREVER.multipliedBy(2));
            part.get();
        });
    }

    /// Of those that wait for one another, at least one is told so.
    @Test
    void poolsInOppositeOrder() throws IOException, InterruptedException {
        // Nobody could close them if the transactions hung.
        List<Pool> pools =
                List.of(
                        Pool.open(dir.resolve("0"), IMPATIENT),
                        Pool.open(dir.resolve("1"), IMPATIENT));
        List<DurablePerson> people = pools.stream().map(DurablePerson::create).toList();
        CountDownLatch both = new CountDownLatch(2);
        List<FutureTask<Integer>> transactions =
                IntStream.range(0, 2)
                        .mapToObj(i ->
                                new FutureTask<>(() ->
                                        pools.get(i)
                                                .transact(() -> {
                                                    people.get(i).setAge(i + 1);
                                                    both.countDown();
                                                    await(both);
                                                    people.get(1 - i).setAge(i + 1);
                                                    return i;
                                                })))
                        .toList();
        List<Thread> threads =
                transactions.stream()
                        .map(task -> Thread.ofPlatform().daemon().start(task))
                        .toList();
        int told = 0;
        for (int i = 0; i < 2; i++) {
            assertTrue(threads.get(i).join(FOREVER), "the transactions hang");
            if (transactions.get(i).state() == Future.State.FAILED) {
                assertInstanceOf(PoolBusyException.class, transactions.get(i).exceptionNow());
                told++;
            } else {
                assertEquals(i + 1, people.get(1 - i).getAge());
            }
        }
        assertTrue(told > 0);
        for (Pool pool : pools) {
            pool.close();
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    /// Starts a thread, and returns once it waits.
    private static Thread startToWait(Runnable work) {
        Thread thread = Thread.ofPlatform().daemon().start(work);
        while (!waits(thread)) {
            assertTrue(thread.isAlive(), "it did not wait");
            Thread.onSpinWait();
        }
        return thread;
    }

    private static boolean waits(Thread thread) {
        return thread.getState() == Thread.State.WAITING
                || thread.getState() == Thread.State.TIMED_WAITING;
    }

    private static void spin(Duration time) {
        long end = System.nanoTime() + time.toNanos();
        while (System.nanoTime() < end) {
            Thread.onSpinWait();
        }
    }

    /// Has another thread set what a transaction has begun with, and waits for that: the
    /// transaction does so much longer than the pool's patience.
    private static void isWaitedFor(Pool pool, Runnable work)
            throws ExecutionException, InterruptedException {
        DurablePerson bob = DurablePerson.create(pool);
        FutureTask<Integer> other = new FutureTask<>(() -> bob.setAge(2), 2);
        pool.transact(() -> {
            Thread thread = startToWait(other);
            work.run();
            assertFalse(other.isDone());
            bob.setAge(1);
        });
        other.get();
        assertEquals(2, bob.getAge());
    }

    /// However long it takes.
    @Test
    void aTransactionThatIsAtWorkIsWaitedFor()
            throws IOException, InterruptedException, ExecutionException {
        try (Pool pool = Pool.open(dir, IMPATIENT)) {
            isWaitedFor(pool, () -> spin(IMPATIENT.patience().multipliedBy(10)));
        }
    }

    /// Nor does it have to write.
    @Test
    void aTransactionThatWaitsForEachPieceOfItsWorkIsWaitedFor()
            throws IOException, InterruptedException, ExecutionException {
        Duration patience = Duration.ofSeconds(1);
        try (Pool pool = Pool.open(dir, IMPATIENT.patience(patience))) {
            DurablePerson alice = DurablePerson.create(pool);
            isWaitedFor(
                    pool,
                    () -> {
                        long end = System.nanoTime() + 2 * patience.toNanos();
                        while (System.nanoTime() < end) {
                            Delay.await(Duration.ofMillis(20));
                            assertEquals(0, alice.getAge());
                        }
                    });
        }
    }

    @Test
    void aTransactionThatWaitsForASlowTierIsWaitedFor()
            throws IOException, InterruptedException, ExecutionException {
        RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
        PoolOptions options = IMPATIENT.remote(segments);
        ObjectType<Thing> type = Thing.on(StorageTier.REMOTE);
        byte[] bytes = new byte[1000];
        try (Pool pool = Pool.open(dir, options)) {
            pool.transact(() -> {
                Thing thing = pool.create(type);
                thing.setBytes(bytes);
                pool.root("thing", type).set(thing);
            });
        }
        try (Pool pool = Pool.open(dir, options)) {
            Thing thing = Objects.requireNonNull(pool.root("thing", type).get());
            segments.slow(options.patience().multipliedBy(10));
            isWaitedFor(pool, () -> assertArrayEquals(bytes, thing.getBytes()));
            // A commit writes.
            isWaitedFor(pool, () -> pool.create(type).setBytes(bytes));
        }
    }

    @Test
    void threadsTakeTurnsInTheOrderInWhichTheyCame() throws IOException, InterruptedException {
        int count = 8;
        List<Integer> order = new ArrayList<>();
        List<Thread> threads = new ArrayList<>();
        try (Pool pool = Pool.open(dir, IMPATIENT)) {
            pool.transact(() -> {
                for (int i = 0; i < count; i++) {
                    int number = i;
                    threads.add(startToWait(() -> pool.transact(() -> order.add(number))));
                }
                spin(IMPATIENT.patience().multipliedBy(10));
            });
            for (Thread thread : threads) {
                thread.join();
            }
        }
        assertEquals(IntStream.range(0, count).boxed().toList(), order);
    }

    @Test
    void whoClosesWaitsInTurnToo() throws IOException, InterruptedException {
        int count = 8;
        int closer = 4;
        List<Integer> done = new ArrayList<>();
        List<Integer> refused = Collections.synchronizedList(new ArrayList<>());
        List<Thread> threads = new ArrayList<>();
        Pool pool = Pool.open(dir, IMPATIENT);
        pool.transact(() -> {
            for (int i = 0; i < count; i++) {
                int number = i;
                Runnable change =
                        () -> {
                            try {
                                pool.transact(() -> done.add(number));
                            } catch (PoolClosedException e) {
                                refused.add(number);
                            }
                        };
                threads.add(startToWait(i == closer ? pool::close : change));
            }
            spin(IMPATIENT.patience().multipliedBy(10));
        });
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(List.of(0, 1, 2, 3), done);
        assertEquals(Set.of(5, 6, 7), Set.copyOf(refused));
    }
}
