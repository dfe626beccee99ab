package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What threads see of what another one writes.
class ReadersTest {
    private static final int ROUNDS = 20_000;
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    @TempDir(factory = InMemory.class)
    Path dir;

    /// A thread that looks again and again.
    private interface Look {
        void once();
    }

    private static void whileWriting(Runnable write, List<Look> looks)
            throws InterruptedException, ExecutionException {
        AtomicBoolean done = new AtomicBoolean();
        try (ExecutorService readers = Executors.newFixedThreadPool(looks.size())) {
            List<Future<Integer>> results = new ArrayList<>();
            for (Look look : looks) {
                results.add(
                        readers.submit(() -> {
                            int times = 0;
                            do {
                                look.once();
                                times++;
                            } while (!done.get());
                            return times;
                        }));
            }
            try {
                write.run();
            } finally {
                done.set(true);
            }
            for (Future<Integer> result : results) {
                assertTrue(result.get() > 0);
            }
        }
    }

    private static String text(int round) {
        return ("text of round " + round + " ").repeat(1 + round % 40);
    }

    @Test
    void consistentReadsAreOfOneCommit()
            throws IOException, InterruptedException, ExecutionException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurablePerson a = DurablePerson.create(pool);
            DurablePerson b = DurablePerson.create(pool);
            pool.transact(() -> {
                a.setPlace(text(0));
                b.setImage(text(0).getBytes(java.nio.charset.StandardCharsets.ISO_8859_1));
            });
            Look sums = () -> assertEquals(0, pool.read(() -> a.getAge() + b.getAge()));
            Look texts =
                    () ->
                            pool.read(() -> {
                                int round = b.getAge();
                                assertEquals(text(round), a.getPlace());
                                assertEquals(
                                        text(round),
                                        new String(
                                                Objects.requireNonNull(b.getImage()),
                                                java.nio.charset.StandardCharsets.ISO_8859_1));
                                return round;
                            });
            double[] row = new double[12];
            Look rows =
                    () -> {
                        assertEquals(12, a.copyRow(row));
                        for (double value : row) {
                            assertEquals(row[0], value);
                        }
                    };
            whileWriting(
                    () -> {
                        for (int i = 1; i <= ROUNDS; i++) {
                            int round = i;
                            double[] next = new double[12];
                            java.util.Arrays.fill(next, round);
                            pool.transact(() -> {
                                a.setAge(-round);
                                a.setPlace(text(round));
                                a.setRow(next);
                                b.setAge(round);
                                b.setImage(
                                        text(round)
                                                .getBytes(
                                                        java.nio.charset.StandardCharsets
                                                                .ISO_8859_1));
                            });
                        }
                    },
                    List.of(sums, texts, rows));
        }
    }

    @Test
    void aStringIsReadWholeThoughItIsReplacedMeanwhile()
            throws IOException, InterruptedException, ExecutionException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setPlace(text(0));
            Look look =
                    () -> {
                        String place = Objects.requireNonNull(bob.getPlace());
                        int round = Integer.parseInt(place.split(" ")[3]);
                        assertEquals(text(round), place);
                    };
            whileWriting(
                    () -> {
                        for (int i = 1; i <= ROUNDS; i++) {
                            bob.setPlace(text(i));
                        }
                    },
                    List.of(look, look));
        }
    }

    @Test
    void aHandleOfWhatWasDeletedNeverReadsAnother()
            throws IOException, InterruptedException, ExecutionException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            record Known(DurablePerson person, int age) {}
            AtomicReference<Known> known = new AtomicReference<>();
            DurablePerson first = DurablePerson.create(pool);
            known.set(new Known(first, 0));
            Look look =
                    () -> {
                        Known now = known.get();
                        for (int i = 0; i < 10; i++) {
                            try {
                                assertEquals(now.age(), now.person().getAge());
                                double[] row = new double[12];
                                now.person().copyRow(row);
                                assertEquals(now.age(), row[11]);
                            } catch (StaleReferenceException expected) {
                                return;
                            }
                        }
                    };
            whileWriting(
                    () -> {
                        for (int i = 1; i <= ROUNDS; i++) {
                            int age = i;
                            known.get().person().delete();
                            DurablePerson next =
                                    pool.transact(() -> {
                                        DurablePerson person = DurablePerson.create(pool);
                                        person.setAge(age);
                                        person.setRow(11, age);
                                        return person;
                                    });
                            known.set(new Known(next, age));
                        }
                    },
                    List.of(look, look));
        }
    }

    @Test
    void writersTakeTurns() throws IOException, InterruptedException, ExecutionException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurablePerson bob = DurablePerson.create(pool);
            int[] added = new int[3];
            List<Look> writers = new ArrayList<>();
            for (int i = 0; i < added.length; i++) {
                int writer = i;
                writers.add(() -> {
                    pool.transact(() -> bob.setAge(bob.getAge() + 1));
                    added[writer]++;
                });
            }
            whileWriting(
                    () -> {
                        for (int i = 0; i < ROUNDS; i++) {
                            bob.setActive(!bob.isActive());
                        }
                    },
                    writers);
            assertEquals(added[0] + added[1] + added[2], bob.getAge());
        }
    }
}
