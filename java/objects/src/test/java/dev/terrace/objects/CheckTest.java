package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.Superblock;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class CheckTest {
    private static final String CLASS = DurablePerson.TYPE.name();
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    @TempDir(factory = InMemory.class)
    Path dir;

    /// A chain of `length` people that the root "first" leads to.
    private static void chain(Pool pool, int length) {
        chain(pool, DurablePerson.TYPE, length);
    }

    private static void chain(Pool pool, ObjectType<DurablePerson> type, int length) {
        pool.transact(() -> {
            DurablePerson next = null;
            for (int i = 0; i < length; i++) {
                DurablePerson person = pool.create(type);
                person.setAge(i);
                person.setPlace("a place with a long name " + i);
                person.setImage(new byte[5000]);
                person.setFriend(next);
                next = person;
            }
            pool.root("first", type).set(next);
        });
    }

    @Test
    void whatNoRootReachesIsFreed() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            chain(pool, 20);
            PoolReport whole = pool.check();
            Map<String, Long> bytes = whole.bytes();
            assertEquals(
                    new PoolReport(List.of(), Map.of(CLASS, 20L), bytes, Map.of(), 0, 0), whole);
            long used = pool.statistics().used().get(0);
            DurablePerson first =
                    Objects.requireNonNull(pool.root("first", DurablePerson.TYPE).get());
            DurablePerson kept = Objects.requireNonNull(first.getFriend());
            pool.root("first", DurablePerson.TYPE).set(kept);
            PoolReport report = pool.check();
            assertEquals(Map.of(CLASS, 1L, "strings and arrays", 2L), report.leaked());
            assertEquals(Map.of(CLASS, bytes.get(CLASS) - report.leakedBytes()), report.bytes());
            assertTrue(report.leakedBytes() > 5000, report::toString);
            assertEquals(report, pool.collect());
            assertFalse(first.isAlive());
            assertEquals(18, kept.getAge());
            assertEquals(Map.of(), pool.check().leaked());
            assertTrue(pool.statistics().used().get(0) < used);
            pool.root("first", DurablePerson.TYPE).set(null);
            pool.collect();
            assertEquals(List.of(0L), pool.statistics().used().subList(1, 2));
        }
    }

    @Test
    void aReferenceToWhatWasDeletedIsCounted() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            chain(pool, 2);
            DurablePerson first =
                    Objects.requireNonNull(pool.root("first", DurablePerson.TYPE).get());
            Objects.requireNonNull(first.getFriend()).delete();
            PoolReport report = pool.check();
            assertEquals(List.of(), report.problems());
            assertEquals(1, report.staleReferences());
            assertThrows(StaleReferenceException.class, first::getFriend);
        }
    }

    @Test
    void walkingMeetsEveryObjectOnce() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            chain(pool, 3000);
            for (boolean readOnly : new boolean[] {false, true}) {
                long sum = 0;
                Cursor<DurablePerson> cursor = pool.cursor(DurablePerson.TYPE);
                while (cursor.next()) {
                    sum += cursor.get().getAge() + 1;
                    assertEquals(cursor.get(), cursor.copy());
                }
                assertEquals(3000L * 3001 / 2, sum, "read only: " + readOnly);
            }
        }
    }

    /// Damages any bytes: the pool is refused, or the damage is reported, or nothing reads those
    /// bytes; no other exception, no crash, no walk without an end.
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void damageIsReportedOrDoesNoHarm(boolean columnar) throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            chain(pool, columnar ? DurablePerson.TYPE.inColumns() : DurablePerson.TYPE, 100);
        }
        Path file = dir.resolve("pool");
        byte[] sound = java.nio.file.Files.readAllBytes(file);
        Random random = new Random(1);
        int reported = 0;
        for (int round = 0; round < 400; round++) {
            int at = round < 160 ? round : Superblock.BYTES + (1 << 16) + random.nextInt(200_000);
            while (round >= 160 && sound[at] == 0) {
                at++;
            }
            try (RandomAccessFile bytes = new RandomAccessFile(file.toFile(), "rw")) {
                bytes.write(sound);
                bytes.seek(at);
                bytes.write(sound[at] ^ 1 << random.nextInt(8));
            }
            try (Pool pool = Pool.open(dir, SMALL.toRead())) {
                reported += pool.check().problems().isEmpty() ? 0 : 1;
            } catch (TerraceException e) {
                reported++;
            }
        }
        assertTrue(reported > 80, reported + " of 400 were found");
    }

    /// A number of extents that is too low would have the next growth overwrite what is in use.
    @Test
    void extentsThatNobodyKnowsOfAreNotOverwritten() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            chain(pool, 6000);
        }
        Path file = dir.resolve("pool");
        byte[] sound = java.nio.file.Files.readAllBytes(file);
        assertTrue(
                sound.length > 2 << 20,
                "the pool has several extents, of which the last may be kept free");
        long[] places = {Superblock.EXTENTS_AT, Superblock.DISKS_AT};
        for (long at : places) {
            byte[] damaged = sound.clone();
            damaged[(int) at] = 1;
            java.nio.file.Files.write(file, damaged);
            assertThrows(PoolDamagedException.class, () -> Pool.open(dir, SMALL));
            assertEquals(sound.length, java.nio.file.Files.size(file));
        }
        java.nio.file.Files.write(file, sound);
        try (Pool pool = Pool.open(dir, SMALL)) {
            assertEquals(List.of(), pool.check().problems());
        }
    }
}
