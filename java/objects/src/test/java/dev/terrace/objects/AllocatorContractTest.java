package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertDoesNotThrow;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;
import java.util.List;
import java.util.Objects;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What every tier does with values, for objects all of whose fields lie there. What a tier does
/// not promise is said by [#promises()]; then these tests say what happens instead.
public abstract class AllocatorContractTest {
    private static final int EXTENT_BYTES = 1 << 20;
    private static final int LARGE = 300_000;
    private static final int TOO_LARGE = 5 << 20;

    /// Where the pool is.
    @TempDir(factory = InMemory.class)
    protected Path dir;

    /// What a tier may promise.
    public enum Promise {
        /// Values outlive the process.
        DURABLE,
        /// What was damaged is not read.
        CHECKED,
        /// It takes as much as it was told to, and no more.
        BOUNDED,
        /// A pool can be opened without it, and goes on.
        SEPARATE
    }

    /// With a directory that is set before each test.
    protected AllocatorContractTest() {
        dir = Path.of("");
    }

    /// The tier.
    protected abstract StorageTier tier();

    /// What it promises.
    protected Set<Promise> promises() {
        return EnumSet.allOf(Promise.class);
    }

    /// A pool whose tier may take so many bytes.
    protected abstract PoolOptions options(PoolOptions defaults, long bytesMax) throws IOException;

    /// Changes bytes 0x5a that lie on the tier, as [#damaged] does. The pool is closed.
    protected abstract void damage() throws IOException;

    /// Has the device fail, or come back. The pool is closed.
    protected abstract void failDevice(boolean fails) throws IOException;

    /// A use of an open pool.
    private interface Use {
        void with(Pool pool) throws IOException;
    }

    private void inPool(long bytesMax, Use use) throws IOException {
        try (Pool pool =
                Pool.open(dir, options(PoolOptions.defaults().extents(EXTENT_BYTES), bytesMax))) {
            use.with(pool);
        }
    }

    private void inPool(Use use) throws IOException {
        inPool(Long.MAX_VALUE, use);
    }

    private boolean promises(Promise promise) {
        return promises().contains(promise);
    }

    private Thing make(Pool pool) {
        return pool.create(Thing.on(tier()));
    }

    private Thing make(Pool pool, byte[] bytes) {
        Thing thing = make(pool);
        thing.setBytes(bytes);
        return thing;
    }

    private Thing root(Pool pool) {
        return Objects.requireNonNull(pool.root("thing", Thing.on(tier())).get());
    }

    private static byte[] bytes(int seed, int length) {
        byte[] bytes = new byte[length];
        new Random(seed).nextBytes(bytes);
        return bytes;
    }

    private static void expectSound(Pool pool) {
        assertEquals(List.of(), pool.check().problems());
    }

    @Test
    void valuesOfAnyLengthComeBack() throws IOException {
        inPool(pool -> {
            Thing thing = make(pool);
            assertNull(thing.getBytes());
            for (int length : new int[] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 4096, 65_536, LARGE}) {
                thing.setBytes(bytes(length, length));
                assertArrayEquals(bytes(length, length), thing.getBytes());
                assertEquals(length, thing.lengthOfBytes());
            }
            thing.setBytes(null);
            assertNull(thing.getBytes());
            expectSound(pool);
        });
    }

    @Test
    void stringsAndNumbersComeBack() throws IOException {
        inPool(pool -> {
            Thing thing = make(pool);
            assertNull(thing.getText());
            assertEquals(0, thing.getNumber());
            for (String text :
                    new String[] {
                        "",
                        "short",
                        "caf\u00e9 au lait",
                        "\u65e5\u672c \ud83d\ude00 \ud83d",
                        "x".repeat(10_000)
                    }) {
                thing.setText(text);
                assertEquals(text, thing.getText());
            }
            for (long number : new long[] {1, -1, Long.MIN_VALUE, Long.MAX_VALUE, 0}) {
                thing.setNumber(number);
                assertEquals(number, thing.getNumber());
            }
            expectSound(pool);
        });
    }

    @Test
    void whatOverwritesIsLongerOrShorter() throws IOException {
        inPool(pool -> {
            Thing thing = make(pool);
            Thing other = make(pool, bytes(99, 1000));
            for (int length : new int[] {100, 1000, 999, 10, 3, 50_000, 8, LARGE, 0, 64}) {
                thing.setBytes(bytes(length, length));
                assertArrayEquals(bytes(length, length), thing.getBytes());
                assertArrayEquals(bytes(99, 1000), other.getBytes());
            }
            pool.transact(() -> {
                thing.setBytes(bytes(1, 500));
                thing.setBytes(bytes(2, 600));
                assertArrayEquals(bytes(2, 600), thing.getBytes());
            });
            assertArrayEquals(bytes(2, 600), thing.getBytes());
            expectSound(pool);
        });
    }

    @Test
    void manyAreReadInAnyOrder() throws IOException {
        inPool(pool -> {
            List<Thing> things = new ArrayList<>();
            pool.transact(() -> {
                for (int i = 0; i < 300; i++) {
                    things.add(make(pool, bytes(i, i * i / 10)));
                }
            });
            List<Integer> order = new ArrayList<>();
            for (int i = 0; i < 300; i++) {
                order.add(i);
            }
            Collections.shuffle(order, new Random(1));
            for (int i : order) {
                assertArrayEquals(bytes(i, i * i / 10), things.get(i).getBytes());
            }
            expectSound(pool);
        });
    }

    @Test
    void whatIsRolledBackHasNotHappened() throws IOException {
        inPool(pool -> {
            Thing thing = make(pool, bytes(1, 1000));
            Thing gone = make(pool, bytes(2, 2000));
            List<Long> used = pool.statistics().used();
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                thing.setBytes(bytes(3, 3000));
                                make(pool, bytes(4, 4000));
                                gone.delete();
                                throw new IllegalStateException("on purpose");
                            }));
            assertArrayEquals(bytes(1, 1000), thing.getBytes());
            assertArrayEquals(bytes(2, 2000), gone.getBytes());
            assertEquals(used, pool.statistics().used());
            expectSound(pool);
        });
    }

    @Test
    void whatIsDeletedGivesItsRoomBack() throws IOException {
        inPool(pool -> {
            List<Long> before = List.of();
            for (int round = 0; round < 4; round++) {
                List<Thing> things = new ArrayList<>();
                for (int i = 0; i < 20; i++) {
                    things.add(make(pool, bytes(i, 5000)));
                }
                things.get(3).setBytes(bytes(3, 70_000));
                things.forEach(Thing::delete);
                // The first time, maps have come of what has grown.
                before = round == 0 ? pool.statistics().used() : before;
                assertEquals(before, pool.statistics().used());
            }
            expectSound(pool);
        });
    }

    @Test
    void aReferenceToWhatWasDeletedIsStale() throws IOException {
        inPool(pool -> {
            Thing thing = make(pool, bytes(1, 1000));
            thing.delete();
            make(pool, bytes(2, 1000));
            assertThrows(StaleReferenceException.class, thing::getBytes);
            assertThrows(StaleReferenceException.class, () -> thing.setBytes(bytes(3, 10)));
        });
    }

    @Test
    void aFullDeviceLeavesEverythingAsItWas() throws IOException {
        inPool(
                2 << 20,
                pool -> {
                    List<Thing> things = new ArrayList<>();
                    if (!promises(Promise.BOUNDED)) {
                        for (int i = 0; i < 40; i++) {
                            things.add(make(pool, bytes(i, 100_000)));
                        }
                    } else {
                        PoolFullException full =
                                assertThrows(
                                        PoolFullException.class,
                                        () -> {
                                            while (things.size() < 100) {
                                                int next = things.size();
                                                pool.transact(() -> {
                                                    Thing thing = make(pool, bytes(next, 100_000));
                                                    things.add(thing);
                                                });
                                            }
                                        });
                        assertTrue(full.getMessage().contains(" no "), full.getMessage());
                        things.removeLast();
                    }
                    assertTrue(things.size() >= 5, things.size() + " values fit");
                    List<Long> used = pool.statistics().used();
                    if (promises(Promise.BOUNDED)) {
                        assertThrows(
                                PoolFullException.class,
                                () -> things.getFirst().setBytes(bytes(7, 1_500_000)));
                        assertEquals(used, pool.statistics().used());
                    }
                    for (int i = 0; i < things.size(); i++) {
                        assertArrayEquals(bytes(i, 100_000), things.get(i).getBytes());
                    }
                    things.removeLast().delete();
                    Thing again = make(pool, bytes(77, 100_000));
                    assertArrayEquals(
                            bytes(77, 100_000), again.getBytes(), "what was given back is room");
                    expectSound(pool);
                });
    }

    @Test
    void aValueThatIsTooLargeIsRefused() throws IOException {
        inPool(
                4 << 20,
                pool -> {
                    Thing thing = make(pool, bytes(1, 1000));
                    if (promises(Promise.BOUNDED)) {
                        assertThrows(
                                PoolFullException.class, () -> thing.setBytes(bytes(2, TOO_LARGE)));
                        assertArrayEquals(bytes(1, 1000), thing.getBytes());
                    } else {
                        thing.setBytes(bytes(2, TOO_LARGE));
                        assertArrayEquals(bytes(2, TOO_LARGE), thing.getBytes());
                    }
                    expectSound(pool);
                });
    }

    @Test
    void readersInThreadsSeeWholeValues() throws IOException {
        inPool(pool -> {
            Thing thing = make(pool, new byte[100]);
            AtomicBoolean done = new AtomicBoolean();
            CountDownLatch reading = new CountDownLatch(2);
            ExecutorService readers = Executors.newFixedThreadPool(2);
            try {
                List<Future<?>> results = new ArrayList<>();
                for (int i = 0; i < 2; i++) {
                    results.add(
                            readers.submit(() -> {
                                do {
                                    byte[] seen = Objects.requireNonNull(thing.getBytes());
                                    byte[] wanted = new byte[100 + 50 * (seen[0] & 0x3f)];
                                    Arrays.fill(wanted, seen[0]);
                                    assertArrayEquals(wanted, seen);
                                    reading.countDown();
                                } while (!done.get());
                            }));
                }
                reading.await();
                for (int i = 0; i < 128; i++) {
                    byte[] next = new byte[100 + 50 * (i & 0x3f)];
                    Arrays.fill(next, (byte) i);
                    thing.setBytes(next);
                }
                done.set(true);
                for (Future<?> result : results) {
                    result.get();
                }
            } catch (InterruptedException | ExecutionException e) {
                throw new AssertionError(e);
            } finally {
                done.set(true);
                readers.shutdownNow();
            }
        });
    }

    @Test
    void anInterruptedThreadFinishesWhatItDoes() throws IOException {
        inPool(pool -> {
            Thread.currentThread().interrupt();
            Thing thing = make(pool, bytes(1, LARGE));
            assertArrayEquals(bytes(1, LARGE), thing.getBytes());
            thing.setBytes(bytes(2, 1000));
            assertTrue(Thread.interrupted(), "the thread is told still");
            assertArrayEquals(bytes(2, 1000), thing.getBytes());
            expectSound(pool);
        });
    }

    /// A value of bytes 0x5a that a root leads to.
    private void keep() throws IOException {
        inPool(pool ->
                pool.transact(() -> {
                    Thing thing = make(pool, kept());
                    thing.setText("Z".repeat(2000));
                    pool.root("thing", Thing.on(tier())).set(thing);
                }));
    }

    private static byte[] kept() {
        byte[] bytes = new byte[100_000];
        Arrays.fill(bytes, (byte) 0x5a);
        return bytes;
    }

    /// What is there after the pool was opened anew.
    private byte @Nullable [] expected() {
        return promises(Promise.DURABLE) ? kept() : null;
    }

    private void expectKept() throws IOException {
        inPool(pool -> {
            assertArrayEquals(expected(), root(pool).getBytes());
            assertEquals(promises(Promise.DURABLE) ? "Z".repeat(2000) : null, root(pool).getText());
            expectSound(pool);
        });
    }

    @Test
    void aPoolThatIsOpenedAnewHasWhatWasCommitted() throws IOException {
        keep();
        expectKept();
        inPool(pool -> root(pool).setBytes(bytes(5, 500)));
        inPool(pool -> {
            assertArrayEquals(
                    promises(Promise.DURABLE) ? bytes(5, 500) : null, root(pool).getBytes());
            List<Long> used = pool.statistics().used();
            Thing more = make(pool, bytes(6, 600));
            more.delete();
            assertEquals(used, pool.statistics().used());
        });
    }

    @Test
    void damageIsNoticedWhereValuesHaveChecksums() throws IOException {
        keep();
        damage();
        inPool(pool -> {
            Thing thing = root(pool);
            if (promises(Promise.CHECKED)) {
                assertThrows(PoolDamagedException.class, thing::getBytes);
                assertThrows(PoolDamagedException.class, thing::getText);
                assertEquals(2, pool.check().problems().size());
                thing.setBytes(bytes(1, 1000));
                assertArrayEquals(bytes(1, 1000), thing.getBytes(), "it can be overwritten");
            } else if (promises(Promise.DURABLE)) {
                byte[] read = Objects.requireNonNull(thing.getBytes());
                assertEquals(kept().length, read.length, "lengths are told from values");
                assertTrue(!Arrays.equals(kept(), read), "nobody can know");
            } else {
                assertNull(thing.getBytes());
            }
        });
    }

    @Test
    void aDeviceThatFailsIsToldAndLosesNothing() throws IOException {
        keep();
        failDevice(true);
        if (promises(Promise.SEPARATE)) {
            inPool(pool -> {
                Thing thing = root(pool);
                assertThrows(TierUnavailableException.class, thing::getBytes);
                assertThrows(TierUnavailableException.class, () -> thing.setBytes(bytes(1, 1000)));
                Thing other = make(pool, new byte[] {1, 2, 3});
                assertArrayEquals(
                        new byte[] {1, 2, 3}, other.getBytes(), "which fit into the slot");
                other.delete();
                DurablePerson person = DurablePerson.create(pool);
                person.setPlace("the pool goes on");
                person.delete();
            });
        } else if (promises(Promise.DURABLE)) {
            assertInstanceOf(
                    TerraceException.class, assertThrows(RuntimeException.class, this::expectKept));
        } else {
            assertDoesNotThrow(this::expectKept);
        }
        failDevice(false);
        expectKept();
    }

    /// Changes each byte 0x5a of a file's bytes that stands between others, so that it is a
    /// value's.
    protected static byte[] damaged(byte[] bytes) {
        byte[] damaged = bytes.clone();
        for (int i = 2; i < damaged.length - 2; i++) {
            boolean isValue = true;
            for (int j = i - 2; j <= i + 2; j++) {
                isValue &= bytes[j] == 0x5a;
            }
            damaged[i] = isValue ? 0x5b : damaged[i];
        }
        return damaged;
    }

    /// A directory of the test's.
    protected Path directory(String name) {
        try {
            return java.nio.file.Files.createDirectories(dir.resolve(name));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
