package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.CollectionOwner;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.ElementType;
import dev.terrace.objects.internal.store.Headers;
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
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What is the remote tier's own: segments that come and go, and what can be wrong with them.
class RemoteTest {
    private static final ObjectType<Thing> THING = Thing.on(StorageTier.REMOTE);
    private static final String LABEL_END = "-0000000000000000.segment";

    @TempDir(factory = InMemory.class)
    Path dir;

    private final RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
    private final PoolOptions options = PoolOptions.defaults().extents(1 << 20).remote(segments);

    private static byte[] bytes(int seed, int length) {
        byte[] bytes = new byte[length];
        Arrays.fill(bytes, (byte) seed);
        return bytes;
    }

    private static Thing thing(Pool pool, String root) {
        return Objects.requireNonNull(pool.root(root, THING).get());
    }

    private static Thing make(Pool pool, String root, byte[] bytes) {
        return pool.transact(() -> {
            Thing thing = pool.create(THING);
            thing.setBytes(bytes);
            pool.root(root, THING).set(thing);
            return thing;
        });
    }

    /// Segments that hold values.
    private List<String> names() {
        return segments.segments().keySet().stream()
                .filter(name -> !name.endsWith(LABEL_END))
                .toList();
    }

    private void flip(String name, int at) {
        segments.segments()
                .computeIfPresent(
                        name,
                        (_, bytes) -> {
                            byte[] damaged = bytes.clone();
                            damaged[at] ^= 1;
                            return damaged;
                        });
    }

    private static void expectSound(Pool pool) {
        assertEquals(List.of(), pool.check().problems());
    }

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

    private static List<Long> remoteUse(Pool pool) {
        return List.of(pool.statistics().used().getLast(), pool.statistics().capacity().getLast());
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

    @Test
    void segmentsThatAreMostlyEmptyOrSmallAreCompacted() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            List<Thing> large = new ArrayList<>();
            pool.transact(() -> {
                for (int i = 0; i < 10; i++) {
                    large.add(make(pool, "large " + i, bytes(i, 20_000)));
                }
            });
            List<Thing> small = new ArrayList<>();
            for (int i = 0; i < 20; i++) {
                small.add(make(pool, "small " + i, bytes(i, 100 + i)));
            }
            assertEquals(21, names().size());
            for (Thing thing : large.subList(0, 4)) {
                thing.setBytes(null);
            }
            CompactionReport first = pool.compact();
            assertEquals(
                    2,
                    names().size(),
                    "one of which most is in use, and one of all that were small");
            assertEquals(20, first.valuesMoved());
            assertEquals(20 * 100 + 190, first.bytesMoved());
            assertEquals(19 * 64, first.bytesGivenBack());
            large.get(4).setBytes(null);
            large.get(5).setBytes(null);
            CompactionReport second = pool.compact();
            assertEquals(24, second.valuesMoved());
            assertEquals(1, names().size());
            assertEquals(
                    new CompactionReport(0, 0, 0, 0),
                    pool.compact(),
                    "there is nothing left to do");
            for (int i = 0; i < 20; i++) {
                assertArrayEquals(bytes(i, 100 + i), small.get(i).getBytes());
                assertArrayEquals(
                        i < 6 || i > 9 ? null : bytes(i, 20_000),
                        i > 9 ? null : large.get(i).getBytes());
            }
            List<Long> use = remoteUse(pool);
            assertEquals(use.get(0) + 64, use.get(1));
            expectSound(pool);
        }
        try (Pool pool = Pool.open(dir, options)) {
            assertArrayEquals(bytes(7, 20_000), thing(pool, "large 7").getBytes());
            expectSound(pool);
        }
    }

    @Test
    void otherTagsBringValuesToTheTierAndBack() throws IOException {
        ObjectType<Thing> near = Thing.named("Retagged", StorageTier.SSD);
        ObjectType<Thing> far = Thing.named("Retagged", StorageTier.REMOTE, StorageTier.SSD);
        try (Pool pool = Pool.open(dir, options)) {
            for (int i = 0; i < 10; i++) {
                Thing thing = pool.create(near);
                thing.setBytes(bytes(i, 1000));
                pool.root("thing " + i, near).set(thing);
            }
        }
        for (ObjectType<Thing> type : List.of(far, near)) {
            try (Pool pool = Pool.open(dir, options)) {
                assertEquals(new RetierReport(10, 10_000, 0, 0), pool.retier(type));
                assertEquals(new RetierReport(0, 0, 0, 0), pool.retier(type));
                assertEquals(type == far, pool.statistics().used().getLast() > 0);
                assertEquals(type == near, pool.statistics().used().get(1) > 0);
                for (int i = 0; i < 10; i++) {
                    assertArrayEquals(
                            bytes(i, 1000),
                            Objects.requireNonNull(pool.root("thing " + i, type).get()).getBytes());
                }
                expectSound(pool);
            }
        }
        assertEquals(List.of(), names());
    }

    /// Has a list whose texts lie on the remote tier.
    private static final class Book extends CollectionOwner {
        static final ObjectType<Book> TYPE =
                ObjectType.of(
                        "dev.terrace.objects.Book",
                        Book.class,
                        Book::new,
                        List.of(),
                        FieldSpec.of("pages", FieldKind.REFERENCE)
                                .on(StorageTier.REMOTE)
                                .to("java.util.List<java.lang.String>")
                                .orNull());

        DurableList<String> pages() {
            return Objects.requireNonNull(getList(0, TYPE.offset(0), ElementType.STRING));
        }

        void setPages(List<String> pages) {
            setList(0, TYPE.offset(0), ElementType.STRING, pages);
        }
    }

    @Test
    void elementsOfCollectionsLieThere() throws IOException {
        List<String> pages = new ArrayList<>();
        for (int i = 0; i < 3000; i++) {
            pages.add("the text of page " + i);
        }
        try (Pool pool = Pool.open(dir, options)) {
            pool.transact(() -> {
                Book book = pool.create(Book.TYPE);
                book.setPages(pages);
                pool.root("book", Book.TYPE).set(book);
            });
            assertEquals(1, names().size());
            assertEquals(pages, Objects.requireNonNull(pool.root("book", Book.TYPE).get()).pages());
            expectSound(pool);
        }
        try (Pool pool = Pool.open(dir, options)) {
            Book book = Objects.requireNonNull(pool.root("book", Book.TYPE).get());
            book.pages().subList(100, 2900).clear();
            assertEquals(200, pool.compact().valuesMoved());
            assertEquals(pages.get(99), book.pages().get(99));
            assertEquals(pages.get(2900), book.pages().get(100));
            expectSound(pool);
            book.pages().clear();
            assertEquals(List.of(), names());
            expectSound(pool);
        }
    }

    @Test
    void whatCannotBeMovedStaysWhereItIs() throws IOException {
        try (Pool pool = Pool.open(dir, options)) {
            make(pool, "a", bytes(1, 100));
            make(pool, "b", bytes(2, 100));
        }
        flip(names().getFirst(), 80);
        try (Pool pool = Pool.open(dir, options)) {
            assertEquals(1, pool.compact().valuesMoved());
            assertEquals(2, names().size());
            assertThrows(PoolDamagedException.class, () -> thing(pool, "a").getBytes());
            assertArrayEquals(bytes(2, 100), thing(pool, "b").getBytes());
            make(pool, "c", bytes(3, 100));
            make(pool, "d", bytes(4, 100));
        }
        segments.reachable(false);
        try (Pool pool = Pool.open(dir, options)) {
            assertThrows(TierUnavailableException.class, pool::compact);
            segments.reachable(true);
            assertArrayEquals(bytes(3, 100), thing(pool, "c").getBytes());
            assertEquals(1, pool.check().problems().size());
        }
    }

    /// Values move and their segments go while others read them: what they read is always whole.
    @Test
    void readersFollowValuesThatMove()
            throws IOException, InterruptedException, ExecutionException {
        try (Pool pool = Pool.open(dir, options);
                ExecutorService threads = Executors.newFixedThreadPool(2)) {
            Thing first = make(pool, "first", bytes(1, 1000));
            Thing second = make(pool, "second", bytes(2, 2000));
            AtomicBoolean done = new AtomicBoolean();
            CountDownLatch reading = new CountDownLatch(2);
            List<Future<?>> readers = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                readers.add(
                        threads.submit(() -> {
                            do {
                                assertArrayEquals(bytes(1, 1000), first.getBytes());
                                assertArrayEquals(bytes(2, 2000), second.getBytes());
                                assertEquals(1000, first.lengthOfBytes());
                                reading.countDown();
                            } while (!done.get());
                        }));
            }
            try {
                reading.await();
                for (int i = 0; i < 50; i++) {
                    Thing more = make(pool, "more", bytes(i, 500));
                    assertTrue(pool.compact().valuesMoved() > 0);
                    more.delete();
                }
            } finally {
                done.set(true);
            }
            for (Future<?> reader : readers) {
                reader.get();
            }
            expectSound(pool);
        }
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

    @Test
    void valuesLeaveAFullPersistentMemoryAndComeBack() throws IOException {
        PoolOptions tiny = options.pmem(1 << 20);
        for (ObjectType<Thing> type :
                List.of(
                        Thing.on(StorageTier.PMEM, StorageTier.REMOTE),
                        Thing.on(StorageTier.PMEM, StorageTier.SSD, StorageTier.REMOTE))) {
            Path its = dir.resolve(type.name());
            PoolOptions limited = tiny.disk(StorageTier.SSD, its, 1 << 20);
            Files.createDirectory(its);
            try (Pool pool = Pool.open(its, limited)) {
                List<Thing> things = new ArrayList<>();
                for (int i = 0;
                        pool.demotedBytes() == 0 || pool.statistics().used().getLast() == 0;
                        i++) {
                    Thing thing = pool.create(type);
                    thing.setBytes(bytes(i, 2000));
                    things.add(thing);
                    assertTrue(i < 10_000, "two MiB take 10,000 values");
                }
                List<DurablePerson> people = new ArrayList<>();
                for (int i = 0; i < 100; i++) {
                    DurablePerson person = DurablePerson.create(pool);
                    person.setPlace("place ".repeat(300));
                    people.add(person);
                }
                for (int i = 0; i < things.size(); i++) {
                    assertArrayEquals(bytes(i, 2000), things.get(i).getBytes());
                }
                expectSound(pool);
                long before = pool.promotedBytes();
                people.forEach(DurableObject::delete);
                long deadline = System.currentTimeMillis() + 60_000;
                while (pool.promotedBytes() == before) {
                    assertTrue(System.currentTimeMillis() < deadline, "nothing comes back");
                    Thread.onSpinWait();
                }
                for (int i = 0; i < things.size(); i++) {
                    assertArrayEquals(bytes(i, 2000), things.get(i).getBytes());
                }
                expectSound(pool);
            }
        }
    }

    /// What may also lie elsewhere goes there, and the transaction goes on.
    @Test
    void aSegmentThatFoundNoRoomLeavesNothingInATransactionThatGoesOn() throws IOException {
        ObjectType<Thing> type = Thing.on(StorageTier.REMOTE, StorageTier.SSD);
        for (boolean hasLabel : new boolean[] {false, true}) {
            Path its = Files.createDirectory(dir.resolve("label " + hasLabel));
            try (Pool pool = Pool.open(its, options)) {
                if (hasLabel) {
                    make(pool, "first", bytes(1, 100)).setBytes(null);
                }
                Thing small = pool.create(type);
                pool.root("small", type).set(small);
                pool.transact(() -> {
                    make(pool, "large", bytes(2, (16 << 20) - 500));
                    segments.full(true);
                    small.setBytes(bytes(3, 1000));
                    segments.full(false);
                });
                assertTrue(pool.statistics().used().get(1) > 0, "the small value lies on the disk");
                assertEquals(1, names().size(), "what was half written is gone");
                assertEquals((16 << 20) - 500, thing(pool, "large").lengthOfBytes());
                expectSound(pool);
                thing(pool, "large").delete();
                pool.root("large", THING).set(null);
                assertArrayEquals(bytes(3, 1000), small.getBytes());
                assertEquals(List.of(), names());
                assertEquals(0, records(pool), "no record of a segment is left");
            }
        }
    }

    /// How many records of segments there are.
    private static long records(Pool pool) {
        int[] segments = {0};
        for (long at = pool.store().nextAllocated(0);
                at >= 0;
                at = pool.store().nextAllocated(at + 1)) {
            segments[0] += Headers.type(pool.store().word(at)) == 0xfffd ? 1 : 0;
        }
        return segments[0];
    }

    /// The chunk that records of values need is there again when the tier can be reached again.
    @Test
    void aPoolThatWasFilledWhileTheTierCouldNotBeReachedMakesRoomAfterwards() throws IOException {
        ObjectType<Thing> near = Thing.on(StorageTier.PMEM);
        ObjectType<Thing> movable = Thing.on(StorageTier.PMEM, StorageTier.REMOTE);
        try (Pool pool = Pool.open(dir, options.pmem(1 << 20))) {
            List<Thing> things = new ArrayList<>();
            for (int i = 0; i < 100; i++) {
                things.add(pool.create(movable));
                things.getLast().setBytes(bytes(i, 2000));
            }
            List<Thing> fillers = new ArrayList<>();
            for (int i = 0; i < 3000; i++) {
                fillers.add(pool.create(near));
            }
            segments.reachable(false);
            // First all whole chunks, then what is left of those with the smallest slots.
            fill(fillers, filler -> filler.setBytes(bytes(1, 60_000)));
            fill(fillers, filler -> filler.setText("8 bytes."));
            segments.reachable(true);
            Thing last = fillers.getLast();
            last.setText("as many.");
            assertEquals("as many.", last.getText());
            assertTrue(pool.demotedBytes() > 0);
            for (int i = 0; i < things.size(); i++) {
                assertArrayEquals(bytes(i, 2000), things.get(i).getBytes());
            }
            expectSound(pool);
        }
    }

    /// Does something to one after the other until there is no room for it, also after others have
    /// been asked to make some.
    private static void fill(List<Thing> things, Consumer<Thing> change) {
        int refused = 0;
        for (int i = 0; refused < 3; i++) {
            try {
                change.accept(things.get(i));
                refused = 0;
            } catch (PoolFullException full) {
                refused++;
            }
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
