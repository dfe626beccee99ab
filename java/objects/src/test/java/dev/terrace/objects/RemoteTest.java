package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.RecordingSegmentStore;
import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import org.junit.jupiter.api.Test;

/// What is the remote tier's own: segments that come and go, and what can be wrong with them.
class RemoteTest extends RemoteRig {
    @Test
    void aTransactionMakesOneSegmentThatGoesWithItsLastValue() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            List<Thing> things = new ArrayList<>();
            pool.transact(() -> {
                for (int i = 0; i < 10; i++) {
                    things.add(make(pool, "thing " + i, bytes(i, 100)));
                }
                assertArrayEquals(
                        bytes(3, 100), things.get(3).getBytes(), "it sees what it has put");
            });
            assertEquals(1, names().size());
            int size = Objects.requireNonNull(segments.segments().get(names().getFirst())).length;
            assertEquals(64 + 10 * 108, size);
            assertEquals(List.of(10 * 108L, (long) size), remoteUse(pool));
            for (Thing thing : things.subList(0, 9)) {
                thing.setBytes(null);
            }
            assertEquals(1, names().size());
            assertArrayEquals(bytes(9, 100), things.get(9).getBytes());
            expectSound(pool);
            things.get(9).setBytes(null);
            assertEquals(List.of(), names());
            assertEquals(List.of(0L, 0L), remoteUse(pool));
            expectSound(pool);
        }
    }

    @Test
    void whatIsPutAndFreedInOneTransactionMakesNoSegment() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            pool.transact(() -> {
                Thing thing = make(pool, "thing", bytes(1, 100));
                thing.setBytes(bytes(2, 1000));
                thing.setBytes(null);
            });
            assertEquals(List.of(), names());
            expectSound(pool);
        }
    }

    @Test
    void aLargeTransactionMakesSeveralSegmentsOrNone() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                make(pool, "a", bytes(1, 9 << 20));
                                make(pool, "b", bytes(2, 9 << 20));
                                assertEquals(1, names().size());
                                assertArrayEquals(bytes(1, 9 << 20), thing(pool, "a").getBytes());
                                throw new IllegalStateException("on purpose");
                            }));
            assertEquals(List.of(), names());
            pool.transact(() -> {
                make(pool, "a", bytes(1, 9 << 20));
                make(pool, "b", bytes(2, 9 << 20));
            });
            assertEquals(2, names().size());
            assertArrayEquals(bytes(1, 9 << 20), thing(pool, "a").getBytes());
            assertArrayEquals(bytes(2, 9 << 20), thing(pool, "b").getBytes());
            expectSound(pool);
        }
    }

    @Test
    void whenItCannotBeReachedNothingIsLostAndTheRestGoesOn() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            make(pool, "thing", bytes(1, 1000));
        }
        segments.reachable(false);
        try (Pool pool = Pool.open(dir, options)) {
            Thing thing = thing(pool, "thing");
            TierUnavailableException read =
                    assertThrows(TierUnavailableException.class, thing::getBytes);
            assertTrue(read.getMessage().contains("memory cannot be reached"), read.getMessage());
            assertEquals(1000, thing.lengthOfBytes(), "which is known without it");
            assertThrows(TierUnavailableException.class, () -> thing.setBytes(bytes(2, 2000)));
            assertThrows(TierUnavailableException.class, pool::check);
            thing.setText("five");
            assertEquals("five", thing.getText(), "which fits into the slot");
            Thing other = make(pool, "other", bytes(3, 7));
            assertArrayEquals(bytes(3, 7), other.getBytes());
            segments.reachable(true);
            assertArrayEquals(bytes(1, 1000), thing.getBytes());
            thing.setBytes(bytes(2, 2000));
            segments.reachable(false);
            thing.setBytes(null);
            assertEquals(List.of(0L, 64 + 2008L), remoteUse(pool), "the segment is there still");
        }
        segments.reachable(true);
        try (Pool pool = Pool.open(dir, options)) {
            assertEquals(List.of(), names());
            assertEquals(List.of(0L, 0L), remoteUse(pool));
            expectSound(pool);
        }
    }

    @Test
    void whatARolledBackTransactionCouldNotDeleteGoesLater() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                make(pool, "a", bytes(1, 9 << 20));
                                make(pool, "b", bytes(2, 9 << 20));
                                segments.reachable(false);
                                throw new IllegalStateException("on purpose");
                            }));
            assertEquals(1, names().size());
            segments.reachable(true);
            make(pool, "c", bytes(3, 100));
            assertEquals(1, names().size());
            assertEquals(64 + 108L, pool.statistics().capacity().getLast());
        }
    }

    @Test
    void aStoreThatIsFullLeavesThePoolAsItWas() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            Thing thing = make(pool, "thing", bytes(1, 1000));
            List<Long> before = pool.statistics().used();
            segments.full(true);
            assertThrows(PoolFullException.class, () -> thing.setBytes(bytes(2, 2000)));
            assertEquals(before, pool.statistics().used());
            segments.full(false);
            assertArrayEquals(bytes(1, 1000), thing.getBytes());
            assertEquals(1, names().size(), "what was half written is gone");
            thing.setBytes(bytes(2, 2000));
            assertEquals(1, names().size());
            expectSound(pool);
        }
    }

    @Test
    void missingCutOffDamagedAndForeignSegmentsAreNoticed() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            make(pool, "thing", bytes(1, 1000));
            make(pool, "other", bytes(2, 1000));
        }
        String name = names().getFirst();
        byte[] sound = Objects.requireNonNull(segments.segments().get(name));
        byte[] other = Objects.requireNonNull(segments.segments().get(names().getLast()));
        segments.segments().remove(name);
        expectDamage(name + " is missing");
        segments.segments().put(name, Arrays.copyOf(sound, 500));
        expectDamage(name + " is cut off");
        for (int at : new int[] {64, 68, 72, 1071}) {
            segments.segments().put(name, sound);
            flip(name, at);
            expectDamage(name + ": 1000 bytes at offset 64 are damaged");
        }
        segments.segments().put(name, other);
        expectDamage("it is segment 2");
        segments.segments().put(name, sound);
        try (Pool pool = Pool.open(dir, options)) {
            assertArrayEquals(bytes(1, 1000), thing(pool, "thing").getBytes());
            expectSound(pool);
        }
    }

    private void expectDamage(String message) throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            PoolDamagedException damaged =
                    assertThrows(PoolDamagedException.class, () -> thing(pool, "thing").getBytes());
            assertTrue(damaged.getMessage().contains(message), damaged.getMessage());
            assertArrayEquals(bytes(2, 1000), thing(pool, "other").getBytes());
            assertEquals(1, pool.check().problems().size());
        }
    }

    /// Words that say what is to be deleted are not believed when they are damaged.
    @Test
    void damagedWordsOfTheSuperblockDeleteNothing() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            make(pool, "thing", bytes(1, 1000));
            make(pool, "other", bytes(2, 1000));
        }
        byte[] sound = Files.readAllBytes(dir.resolve("pool"));
        for (long word :
                new long[] {
                    Superblock.REMOTE_NEXT_AT,
                    Superblock.REMOTE_SETTLED_AT,
                    Superblock.REMOTE_EMPTY_AT
                }) {
            for (int bit = 0; bit < 64; bit++) {
                byte[] damaged = sound.clone();
                damaged[(int) word + bit / 8] ^= (byte) (1 << bit % 8);
                Files.write(dir.resolve("pool"), damaged);
                assertThrows(PoolDamagedException.class, () -> Pool.open(dir, options));
                assertEquals(2, names().size());
            }
        }
        Files.write(dir.resolve("pool"), sound);
        try (Pool pool = Pool.open(dir, options)) {
            expectSound(pool);
        }
    }

    @Test
    void segmentsOfAnotherPoolAreNotTakenForItsOwn() throws IOException {
        RecordingSegmentStore elsewhere = new RecordingSegmentStore(new ArrayList<>());
        Path second = dir.resolve("second");
        Files.createDirectory(second);
        try (Pool pool = Pool.open(dir, options);
                Pool other = Pool.open(second, options)) {
            make(pool, "thing", bytes(1, 1000));
            make(other, "thing", bytes(2, 1000));
            assertArrayEquals(
                    bytes(1, 1000), thing(pool, "thing").getBytes(), "two pools in one directory");
            assertArrayEquals(bytes(2, 1000), thing(other, "thing").getBytes());
            expectSound(pool);
            expectSound(other);
        }
        PoolFormatException wrong =
                assertThrows(
                        PoolFormatException.class, () -> Pool.open(dir, options.remote(elsewhere)));
        assertTrue(
                wrong.getMessage().contains("is not where this pool's segments are"),
                wrong.getMessage());
        assertThrows(
                PoolFormatException.class,
                () -> Pool.open(dir, options.remote(elsewhere).toRead()));
        flip(segments.segments().keySet().iterator().next(), 20);
        try (Pool pool = Pool.open(dir, PoolOptions.defaults())) {
            TierUnavailableException none =
                    assertThrows(
                            TierUnavailableException.class, () -> thing(pool, "thing").getBytes());
            assertTrue(
                    none.getMessage().contains("name it when the pool is opened"),
                    none.getMessage());
            assertThrows(
                    IllegalArgumentException.class,
                    () -> thing(pool, "thing").setBytes(new byte[100]));
        }
    }

    @Test
    void aCopyOfAPoolDoesNotOverwriteSegments() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            make(pool, "thing", bytes(1, 1000));
        }
        Path copy = dir.resolve("copy");
        Files.createDirectory(copy);
        Files.copy(dir.resolve("pool"), copy.resolve("pool"));
        try (Pool pool = Pool.open(dir, options);
                Pool other = Pool.open(copy, options)) {
            make(pool, "second", bytes(2, 1000));
            PoolFormatException there =
                    assertThrows(
                            PoolFormatException.class, () -> make(other, "second", bytes(3, 1000)));
            assertTrue(there.getMessage().contains("a copy of this pool"), there.getMessage());
            assertArrayEquals(bytes(2, 1000), thing(pool, "second").getBytes());
        }
    }

    @Test
    void whatNoRootReachesIsFreed() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            make(pool, "thing", bytes(1, 1000));
            pool.root("thing", THING).set(null);
            PoolReport report = pool.collect();
            assertEquals(Map.of(THING.name(), 1L, "strings and arrays", 1L), report.leaked());
            assertTrue(report.leakedBytes() > 1000, report::toString);
            assertEquals(List.of(), names());
            assertEquals(List.of(0L, 0L), remoteUse(pool));
            assertEquals(Map.of(), pool.check().leaked());
        }
    }

    @Test
    void aProcessThatOnlyReadsSeesWhatIsCommitted() throws IOException {
        Path copy = dir.resolve("copy");
        Files.createDirectory(copy);
        try (Pool pool = Pool.open(dir, options)) {
            make(pool, "thing", bytes(1, 1000));
        }
        // A copy of the file is what another process has mapped, as it was before.
        Files.copy(dir.resolve("pool"), copy.resolve("pool"));
        Files.createFile(copy.resolve("disk-0"));
        try (Pool reader = Pool.open(copy, options.toRead())) {
            assertArrayEquals(bytes(1, 1000), thing(reader, "thing").getBytes());
            assertThrows(PoolReadOnlyException.class, () -> thing(reader, "thing").setBytes(null));
            expectSound(reader);
        }
        assertEquals(1, names().size());
    }

    /// Beside a writer that commits between any two looks, a consistent read would else go to the
    /// tier each time.
    @Test
    void whatWasReadOnceIsNotReadAgain() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            make(pool, "thing", bytes(1, 1000));
        }
        try (Pool pool = Pool.open(dir, options)) {
            Thing thing = thing(pool, "thing");
            int before = segments.reads();
            for (int i = 0; i < 5; i++) {
                assertArrayEquals(bytes(1, 1000), thing.getBytes());
            }
            assertEquals(before + 1, segments.reads());
            byte[] mine = Objects.requireNonNull(thing.getBytes());
            mine[0]++;
            assertArrayEquals(
                    bytes(1, 1000),
                    thing.getBytes(),
                    "what a program does with its copy is its own");
        }
    }

    /// However busy a writer is: each try may take as long as the tier's patience.
    @Test
    void whoReadsIsToldSoonThatTheTierCannotBeReached() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            make(pool, "thing", bytes(1, 1000));
        }
        try (Pool pool = Pool.open(dir, options);
                ExecutorService writer = Executors.newSingleThreadExecutor()) {
            Thing thing = thing(pool, "thing");
            DurablePerson person = DurablePerson.create(pool);
            int[] refused = {0};
            segments.reachable(false);
            segments.onRefusal(() -> {
                if (++refused[0] < 20) {
                    assertEquals(
                            refused[0],
                            writer.submit(
                                            () -> {
                                                person.setAge(refused[0]);
                                                return person.getAge();
                                            })
                                    .get());
                }
                return refused;
            });
            TierUnavailableException told =
                    assertThrows(TierUnavailableException.class, thing::getBytes);
            assertTrue(told.getMessage().contains("memory cannot be reached"), told.getMessage());
            assertTrue(refused[0] <= 4, () -> refused[0] + " tries");
        }
    }
}
