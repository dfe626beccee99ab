package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.RecordingSegmentStore;
import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/// A sealed pool never changes, whoever tries, and reads as it did before.
class SealTest {
    private static final PoolOptions OPTIONS = PoolOptions.defaults().extents(1 << 20);
    private static final Map<String, List<StorageTier>> ON_DISK =
            Map.of("place", List.of(StorageTier.SSD));
    private static final String TEXT = "a text that is longer than a slot holds";

    @TempDir(factory = InMemory.class)
    Path dir;

    private static DurablePerson make(Pool pool) {
        return pool.transact(() -> {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setAge(11);
            bob.setPlace(TEXT);
            bob.setImage(new byte[5000]);
            pool.root("bob", DurablePerson.TYPE).set(bob);
            return bob;
        });
    }

    private static DurablePerson bob(Pool pool) {
        return Objects.requireNonNull(pool.root("bob", DurablePerson.TYPE).get());
    }

    private Map<String, ByteBuffer> files() throws IOException {
        Map<String, ByteBuffer> files = new TreeMap<>();
        try (var all = Files.list(dir)) {
            // A process that closes any channel of its lock file loses the lock.
            for (Path file : all.filter(path -> !path.endsWith("lock")).toList()) {
                files.put(file.getFileName().toString(), ByteBuffer.wrap(Files.readAllBytes(file)));
            }
        }
        return files;
    }

    private static void expectRefusal(Executable write) {
        PoolReadOnlyException refusal = assertThrows(PoolReadOnlyException.class, write);
        assertTrue(
                String.valueOf(refusal.getMessage()).contains(" is sealed, so it never changes"),
                refusal::getMessage);
    }

    @Test
    void whoeverWritesIsRefusedAndNothingChanges() throws IOException {
        try (Pool pool = Pool.open(dir, OPTIONS)) {
            DurablePerson bob = make(pool);
            assertFalse(pool.isSealed());
            pool.seal();
            assertTrue(pool.isSealed());
            Map<String, ByteBuffer> before = files();
            for (Executable write :
                    List.<Executable>of(
                            () -> bob.setAge(12),
                            () -> bob.setPlace("Chile"),
                            () -> bob.setImage(new byte[1]),
                            () -> bob.setRow(1, 2.0),
                            bob::delete,
                            () -> DurablePerson.create(pool),
                            () -> pool.root("bob", DurablePerson.TYPE).set(null),
                            () -> pool.removeRoot("bob"),
                            () -> pool.transact(() -> bob.setAge(12)),
                            () -> pool.transact(() -> {}),
                            pool::compact,
                            () -> pool.retier(DurablePerson.TYPE),
                            () -> pool.place(DurablePerson.TYPE.name(), Map.of()),
                            () -> pool.place(DurablePerson.TYPE.name(), ON_DISK),
                            pool::seal)) {
                expectRefusal(write);
            }
            assertEquals(List.of(), pool.collect().problems(), "there is nothing to free");
            assertEquals(11, bob.getAge());
            assertEquals(TEXT, bob.getPlace());
            assertEquals(List.of(), pool.check().problems());
            assertEquals(before, files());
        }
        Map<String, ByteBuffer> before = files();
        expectRefusal(() -> Pool.open(dir, OPTIONS).close());
        expectRefusal(() -> Pool.open(dir, OPTIONS.existing().withPmemChecksums()).close());
        try (Pool pool = Pool.open(dir, OPTIONS.toRead())) {
            assertTrue(pool.isSealed());
            DurablePerson bob = bob(pool);
            assertEquals(11, bob.getAge());
            assertEquals(TEXT, pool.read(bob::getPlace));
            assertArrayEquals(new byte[5000], bob.getImage());
            assertThrows(PoolReadOnlyException.class, () -> bob.setAge(12));
            assertThrows(PoolReadOnlyException.class, pool::seal);
            assertEquals(List.of(), pool.check().problems());
        }
        assertEquals(before, files());
    }

    @Test
    void whoReadsAlreadyGoesOn() throws IOException {
        try (Pool pool = Pool.open(dir, OPTIONS);
                Pool reader = Pool.open(dir, OPTIONS.toRead())) {
            make(pool);
            DurablePerson bob = bob(reader);
            assertEquals(11, bob.getAge());
            pool.seal();
            assertEquals(11, bob.getAge());
            assertEquals(TEXT, bob.getPlace());
            assertTrue(reader.isSealed());
        }
    }

    /// A profile counts reads of a sealed pool, too.
    @Test
    void aProfileCountsReads() throws IOException {
        try (Pool pool = Pool.open(dir, OPTIONS)) {
            make(pool);
            pool.seal();
        }
        try (Pool pool = Pool.open(dir, OPTIONS.toRead())) {
            DurablePerson bob = bob(pool);
            assertEquals(11, bob.getAge());
            try (Profiling profiling = pool.profile()) {
                assertEquals(11, bob.getAge());
                assertEquals(11, bob.getAge());
                long reads =
                        profiling.profile().classes().stream()
                                .flatMap(type -> type.fields().stream())
                                .filter(field -> field.field().name().equals("age"))
                                .mapToLong(FieldProfile::reads)
                                .sum();
                assertEquals(2, reads);
            }
        }
    }

    @Test
    void aTransactionIsNotSealed() throws IOException {
        try (Pool pool = Pool.open(dir, OPTIONS)) {
            DurablePerson bob = make(pool);
            assertThrows(IllegalStateException.class, () -> pool.transact(pool::seal));
            assertThrows(
                    PoolReadOnlyException.class,
                    () ->
                            pool.read(() -> {
                                pool.seal();
                                return null;
                            }));
            assertFalse(pool.isSealed());
            bob.setAge(12);
        }
    }

    /// Features are bits of one word: a thread that adds one must not take the seal off.
    @Test
    void aPlacementMeanwhileDoesNotBreakTheSeal() throws Exception {
        for (int round = 0; round < 50; round++) {
            Path place = dir.resolve("pool " + round);
            CyclicBarrier together = new CyclicBarrier(2);
            try (Pool pool = Pool.open(place, OPTIONS);
                    var threads = Executors.newSingleThreadExecutor()) {
                make(pool);
                Future<?> placing =
                        threads.submit(() -> {
                            together.await();
                            return pool.place(DurablePerson.TYPE.name(), ON_DISK);
                        });
                together.await();
                pool.seal();
                try {
                    placing.get();
                } catch (ExecutionException late) {
                    assertInstanceOf(PoolReadOnlyException.class, late.getCause());
                }
                assertTrue(pool.isSealed());
            }
            expectRefusal(() -> Pool.open(place, OPTIONS).close());
        }
    }

    /// Nobody opens the pool to write and deletes them later.
    @Test
    void segmentsThatHoldNothingAreDeletedBefore() {
        try (PoolRig rig = new PoolRig(true)) {
            Pool pool = rig.pool();
            ObjectType<Thing> type = Thing.on(StorageTier.REMOTE);
            Thing kept = pool.create(type);
            kept.setBytes(new byte[100]);
            pool.root("thing", type).set(kept);
            Thing gone = pool.create(type);
            gone.setBytes(new byte[200]);
            rig.segments().reachable(false);
            gone.delete();
            assertThrows(TierUnavailableException.class, pool::seal);
            assertFalse(pool.isSealed());
            kept.setText("short");
            rig.segments().reachable(true);
            pool.seal();
            assertEquals(2, rig.segments().segments().size(), "the label, and one");
            assertArrayEquals(
                    new byte[100],
                    Objects.requireNonNull(rig.reader().root("thing", type).get()).getBytes());
        }
    }

    /// A pool that was opened without its remote tier cannot delete them.
    @Test
    void segmentsThatCannotBeDeletedKeepAPoolFromBeingSealed() throws IOException {
        RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
        ObjectType<Thing> type = Thing.on(StorageTier.REMOTE);
        try (Pool pool = Pool.open(dir, OPTIONS.remote(segments))) {
            Thing thing = pool.create(type);
            thing.setBytes(new byte[100]);
            pool.root("thing", type).set(thing);
        }
        try (Pool pool = Pool.open(dir, OPTIONS)) {
            pool.seal();
            assertTrue(pool.isSealed(), "nothing is to be deleted");
        }
        Path other = dir.resolve("other");
        RecordingSegmentStore others = new RecordingSegmentStore(new ArrayList<>());
        try (Pool pool = Pool.open(other, OPTIONS.remote(others))) {
            Thing thing = pool.create(type);
            thing.setBytes(new byte[100]);
            pool.root("thing", type).set(thing);
        }
        try (Pool pool = Pool.open(other, OPTIONS)) {
            Objects.requireNonNull(pool.root("thing", type).get()).delete();
            assertThrows(TierUnavailableException.class, pool::seal);
            assertFalse(pool.isSealed());
        }
        try (Pool pool = Pool.open(other, OPTIONS.remote(others))) {
            pool.seal();
            assertEquals(1, others.segments().size(), "the label");
        }
    }

    /// A thread that waits for its turn when the pool is sealed comes too late.
    @Test
    void whoWaitsToWriteIsRefused() throws Exception {
        try (Pool pool = Pool.open(dir, OPTIONS.patience(Duration.ofMinutes(1)));
                var threads = Executors.newSingleThreadExecutor()) {
            DurablePerson bob = make(pool);
            CountDownLatch begun = new CountDownLatch(1);
            Future<?> late =
                    pool.store()
                            .alone(() -> {
                                Future<?> waits =
                                        threads.submit(() -> {
                                            begun.countDown();
                                            bob.setAge(12);
                                        });
                                awaitWaiting(begun);
                                pool.seal();
                                return waits;
                            });
            Throwable refusal = assertThrows(ExecutionException.class, late::get).getCause();
            expectRefusal(() -> {
                throw Objects.requireNonNull(refusal);
            });
            assertEquals(11, bob.getAge());
        }
    }

    private static void awaitWaiting(CountDownLatch begun) {
        try {
            begun.await();
            // Whether it waits already decides nothing: it is refused either way.
            Thread.sleep(50);
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    /// The seal is there only with all that was committed before.
    @Test
    void aCrashLeavesNoSealWithoutAllCommits() {
        try (PoolRig rig = PoolRig.of(SealTest::make)) {
            int[] sealed = {0, 0};
            CrashHistory history =
                    CrashHistory.of(
                            rig,
                            pool -> {
                                DurablePerson bob = bob(pool);
                                pool.transact(() -> {
                                    bob.setPlace(TEXT + TEXT);
                                    bob.setImage(new byte[7000]);
                                });
                                bob.setAge(12);
                                pool.seal();
                            },
                            SealTest::look);
            rig.forEachCrash(
                    true,
                    (happened, found) -> {
                        String seen = found.read(() -> look(found));
                        history.check(happened, seen);
                        if (found.isSealed()) {
                            assertEquals(history.states().getLast(), seen);
                        }
                        sealed[found.isSealed() ? 1 : 0]++;
                    });
            assertTrue(sealed[0] > 2 && sealed[1] > 0, sealed[0] + " and " + sealed[1]);
        }
    }

    private static String look(Pool pool) {
        return bob(pool).contents();
    }

    /// That cannot be: the commit on its way would never get to its places.
    @Test
    void aSealWithinACommitIsDamage() throws IOException {
        try (Pool pool = Pool.open(dir, OPTIONS)) {
            make(pool);
            pool.seal();
        }
        byte[] bytes = Files.readAllBytes(dir.resolve("pool"));
        ByteBuffer page = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
        int at = (int) Superblock.SEQUENCE_AT;
        page.putLong(at, page.getLong(at) + 1);
        Files.write(dir.resolve("pool"), bytes);
        PoolDamagedException damaged =
                assertThrows(PoolDamagedException.class, () -> Pool.open(dir, OPTIONS.toRead()));
        assertTrue(
                String.valueOf(damaged.getMessage()).contains("sealed in the middle of a commit"),
                damaged::getMessage);
    }
}
