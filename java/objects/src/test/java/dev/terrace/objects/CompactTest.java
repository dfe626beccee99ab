package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Values move closer together, and what they leave comes free.
class CompactTest {
    private static final int ROUNDS = 30;
    private static final long MIB = 1 << 20;
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    @TempDir(factory = InMemory.class)
    Path dir;

    private static String text(int i) {
        return ("text " + i + " ").repeat(20 + i % 30);
    }

    private static byte[] image(int i) {
        return ("image " + i + " ").repeat(300 + i % 700).getBytes(StandardCharsets.ISO_8859_1);
    }

    private long diskBytes() throws IOException {
        return Files.size(dir.resolve("disk-0"));
    }

    /// Of so many people, every one in `each` stays.
    private static List<DurablePerson> people(Pool pool, int count, int each) {
        DurableList<DurablePerson> list =
                DurableList.root(pool, "people", ElementType.of(DurablePerson.TYPE));
        List<DurablePerson> all = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            DurablePerson person = DurablePerson.create(pool);
            person.setAge(i);
            person.setPlace(text(i));
            person.setImage(image(i));
            all.add(person);
        }
        List<DurablePerson> kept = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            if (i % each == 0) {
                kept.add(all.get(i));
            } else {
                all.get(i).delete();
            }
        }
        list.addAll(kept);
        return kept;
    }

    private static void mustBeWhole(Pool pool, List<DurablePerson> people) {
        for (DurablePerson person : people) {
            assertEquals(text(person.getAge()), person.getPlace());
            assertArrayEquals(image(person.getAge()), person.getImage());
        }
        PoolReport report = pool.check();
        assertEquals(List.of(), report.problems());
        assertEquals(0, report.leakedBytes());
    }

    @Test
    void whatIsSparselyUsedComesFree() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<DurablePerson> people = people(pool, 1500, 10);
            DurableMap<String, String> map =
                    DurableMap.root(pool, "map", ElementType.STRING, ElementType.STRING);
            for (int i = 0; i < 600; i++) {
                map.put(text(i), text(i + 1));
            }
            map.keySet().removeIf(key -> !key.startsWith("text 5"));
            long before = diskBytes();
            CompactionReport report = pool.compact();
            assertTrue(
                    report.valuesMoved() > 100 && report.bytesMoved() > 100_000, report::toString);
            assertTrue(report.chunksFreed() > 20, report::toString);
            assertTrue(report.bytesGivenBack() >= 4 * MIB, report::toString);
            assertEquals(before - report.bytesGivenBack(), diskBytes());
            mustBeWhole(pool, people);
            for (int i = 0; i < 600; i++) {
                assertEquals(("" + i).startsWith("5") ? text(i + 1) : null, map.get(text(i)));
            }
            CompactionReport again = pool.compact();
            assertEquals(0, again.bytesGivenBack(), again::toString);
            assertTrue(again.valuesMoved() < report.valuesMoved() / 4, again::toString);
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            mustBeWhole(
                    pool,
                    List.copyOf(
                            DurableList.root(pool, "people", ElementType.of(DurablePerson.TYPE))));
        }
    }

    @Test
    void aDamagedValueStaysAndOthersMove() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<DurablePerson> people = people(pool, 1500, 10);
            DurablePerson damaged = people.getLast();
            byte[] wanted = java.util.Arrays.copyOf(image(damaged.getAge()), 100);
            try (RandomAccessFile disk =
                    new RandomAccessFile(dir.resolve("disk-0").toFile(), "rw")) {
                byte[] all = new byte[(int) disk.length()];
                disk.readFully(all);
                int at =
                        new String(all, StandardCharsets.ISO_8859_1)
                                .indexOf(new String(wanted, StandardCharsets.ISO_8859_1));
                disk.seek(at + 50L);
                disk.write(all[at + 50] ^ 1);
            }
            assertThrows(PoolDamagedException.class, damaged::getImage);
            CompactionReport report = pool.compact();
            assertTrue(report.valuesMoved() > 100, report::toString);
            assertThrows(PoolDamagedException.class, damaged::getImage);
            assertEquals(1, pool.check().problems().size());
            damaged.setImage(image(damaged.getAge()));
            mustBeWhole(pool, people);
        }
    }

    @Test
    void roomThatComesFreeIsThereForOtherSizes() throws IOException {
        PoolOptions tiny = SMALL.pmem(1 << 20);
        try (Pool pool = Pool.open(dir, tiny)) {
            List<DurablePerson> all = new ArrayList<>();
            assertThrows(
                    PoolFullException.class,
                    () -> {
                        while (true) {
                            DurablePerson person = DurablePerson.create(pool);
                            all.add(person);
                            person.setPlace("x".repeat(1500));
                        }
                    });
            for (int i = 0; i < all.size(); i++) {
                if (i % 20 != 0) {
                    all.get(i).setPlace(null);
                }
            }
            DurablePerson first = all.getFirst();
            String large = "y".repeat(400_000);
            assertThrows(PoolFullException.class, () -> first.setPlace(large));
            assertTrue(pool.compact().chunksFreed() > 5);
            first.setPlace(large);
            assertEquals(large, first.getPlace());
            assertEquals("x".repeat(1500), all.get(20).getPlace());
        }
    }

    @Test
    void aDiskThatHoldsNothingHasAnEmptyFileAndGrowsAgain() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<DurablePerson> people = people(pool, 300, 1);
            assertTrue(diskBytes() >= 2 * MIB);
            long used = pool.statistics().used().getFirst();
            people.forEach(person -> person.setImage(null));
            assertEquals(diskBytes(), diskBytes());
            pool.compact();
            assertEquals(0, diskBytes());
            assertEquals(
                    List.of(0L, 0L),
                    List.of(pool.statistics().used().get(1), pool.statistics().capacity().get(1)));
            assertTrue(
                    pool.statistics().used().getFirst() < used,
                    "maps of what is not there are freed");
            people.forEach(person -> person.setImage(image(person.getAge())));
            mustBeWhole(pool, people);
        }
        try (Pool pool = Pool.open(dir, SMALL.toRead())) {
            mustBeWhole(
                    pool,
                    List.copyOf(
                            DurableList.root(pool, "people", ElementType.of(DurablePerson.TYPE))));
        }
    }

    /// As it is left by who ends between the commit and that.
    @Test
    void aFileThatIsLongerThanItNeedBeIsCutOff() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            people(pool, 10, 1);
        }
        long before = diskBytes();
        try (var file = new java.io.RandomAccessFile(dir.resolve("disk-0").toFile(), "rw")) {
            file.seek(before);
            file.write(new byte[(int) (2 * MIB)]);
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            assertEquals(2 * MIB, pool.compact().bytesGivenBack());
            assertEquals(before, diskBytes());
        }
    }

    @Test
    void itIsNoPartOfATransaction() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                pool.compact();
                            }));
        }
    }

    /// Threads of this process, and one that has opened the files for itself, as another process
    /// does.
    @Test
    void whoReadsMeanwhileSeesEachValueWhole()
            throws IOException, InterruptedException, ExecutionException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            List<DurablePerson> people = people(pool, 200, 1);
            PoolFiles files = PoolFiles.open(dir, SMALL.toRead());
            Pool other = Pool.on(files);
            List<DurablePerson> theirs =
                    List.copyOf(
                            DurableList.root(other, "people", ElementType.of(DurablePerson.TYPE)));
            AtomicBoolean done = new AtomicBoolean();
            try (ExecutorService readers = Executors.newFixedThreadPool(2)) {
                List<Future<Integer>> looks =
                        List.of(
                                readers.submit(() -> look(people, done)),
                                readers.submit(() -> look(theirs, done)));
                try {
                    for (int round = 0; round < ROUNDS; round++) {
                        // What is read lies at the end of the file then: what it replaces is free
                        // only when all of it is there.
                        DurablePerson filler = DurablePerson.create(pool);
                        filler.setImage(new byte[900_000]);
                        pool.transact(() ->
                                people.forEach(person -> person.setImage(image(person.getAge()))));
                        filler.delete();
                        CompactionReport report = pool.compact();
                        assertTrue(
                                report.bytesGivenBack() > 0 && report.valuesMoved() > 0,
                                report::toString);
                    }
                } finally {
                    done.set(true);
                }
                for (Future<Integer> look : looks) {
                    assertTrue(look.get() > 0);
                }
            } finally {
                other.closeNow(files);
            }
        }
    }

    private static int look(List<DurablePerson> people, AtomicBoolean done) {
        int times = 0;
        do {
            for (DurablePerson person : people) {
                int age = person.getAge();
                assertEquals(text(age), person.getPlace());
                assertArrayEquals(image(age), person.getImage());
            }
            times++;
        } while (!done.get());
        return times;
    }

    @Test
    void itIsNotForAPoolThatIsOnlyRead() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            for (DurablePerson person : people(pool, 20, 1)) {
                person.delete();
            }
            DurableList.root(pool, "people", ElementType.of(DurablePerson.TYPE)).clear();
        }
        try (Pool pool = Pool.open(dir, SMALL.toRead())) {
            for (int i = 0; i < 2; i++) {
                assertThrows(PoolReadOnlyException.class, pool::compact);
                assertEquals(List.of(), pool.check().problems());
            }
        }
    }
}
