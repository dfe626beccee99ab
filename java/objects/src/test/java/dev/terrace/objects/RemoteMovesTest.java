package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.CollectionOwner;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.ElementType;
import dev.terrace.objects.internal.store.Headers;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;

/// Values move between the remote tier and others, and between segments.
class RemoteMovesTest extends RemoteRig {
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
        for (long at = pool.store().parts().nextAllocated(0);
                at >= 0;
                at = pool.store().parts().nextAllocated(at + 1)) {
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
}
