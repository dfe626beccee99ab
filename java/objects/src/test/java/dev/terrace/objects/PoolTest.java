package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.References;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

class PoolTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    @TempDir(factory = InMemory.class)
    Path dir;

    private Pool open() throws IOException {
        return Pool.open(dir.resolve("people"), SMALL);
    }

    private static DurablePerson bob(Pool pool) {
        return Objects.requireNonNull(pool.root("bob", DurablePerson.class).get());
    }

    /// On whatever file system there is for temporary files, where pages are written to the device.
    @Test
    void aPoolOnADiskKeepsWhatItHolds(@TempDir Path disk) throws IOException {
        String contents;
        try (Pool pool = Pool.open(disk, SMALL)) {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setAge(5);
            bob.setPlace("a place with a long name");
            bob.setImage(new byte[50_000]);
            pool.root("bob", DurablePerson.class).set(bob);
            contents = bob.contents();
        }
        try (Pool pool = Pool.open(disk, SMALL.toRead())) {
            assertEquals(contents, bob(pool).contents());
            assertThrows(PoolReadOnlyException.class, () -> bob(pool).setAge(6));
        }
    }

    @Test
    void aReferenceLeadsToItsObjectAndARemovedNameNowhere() throws IOException {
        try (Pool pool = open()) {
            assertEquals(List.of(StorageTier.PMEM, StorageTier.SSD), pool.tiers());
            DurablePerson bob = DurablePerson.create(pool);
            pool.root("bob", DurablePerson.class).set(bob);
            assertEquals(bob, pool.object(DurablePerson.TYPE, bob.reference()));
            pool.removeRoot("bob");
            pool.removeRoot("nobody");
            assertEquals(List.of(), pool.rootNames());
            assertTrue(bob.isAlive());
            bob.delete();
            assertThrows(
                    StaleReferenceException.class,
                    () -> pool.object(DurablePerson.TYPE, bob.reference()));
        }
    }

    @Test
    void everyFieldComesBackAfterReopening() throws IOException {
        byte[] image = new byte[10_000];
        image[9_999] = 7;
        String[] names = {
            "", "Bob", "Ægir", "a name that is longer than a slot", "\ud83d\ude00 \ud83d", "日本"
        };
        for (String name : names) {
            String contents;
            try (Pool pool = open()) {
                DurablePerson bob = DurablePerson.create(pool);
                assertEquals(
                        "0 0 null null null "
                                + java.util.Arrays.hashCode(new double[12])
                                + " null 0 false",
                        bob.contents());
                bob.setAge(-11);
                bob.setImage(image);
                bob.setPlace(name);
                bob.setName(name);
                bob.setScore(1.5);
                bob.setHeight((short) -180);
                bob.setRow(3, 2.5);
                bob.setMood(DurablePerson.Mood.BAD);
                bob.setBalance(Long.MIN_VALUE);
                bob.setActive(true);
                bob.setFriend(bob);
                pool.root("bob", DurablePerson.class).set(bob);
                assertEquals(1.5, bob.getScore());
                contents = bob.contents();
            }
            try (Pool pool = open()) {
                DurablePerson bob = bob(pool);
                assertEquals(contents, bob.contents());
                assertEquals(bob, bob.getFriend());
                assertNull(bob.getScore());
                assertEquals(-11, bob.getAge());
                assertEquals(name, bob.getPlace());
                assertEquals(List.of("bob"), pool.rootNames());
                double[] row = new double[20];
                assertEquals(12, bob.copyRow(row));
                assertEquals(2.5, row[3]);
                assertEquals(2.5, bob.getRow(3));
                assertThrows(IndexOutOfBoundsException.class, () -> bob.getRow(12));
                assertArrayEquals(image, bob.getImage());
                bob.delete();
                assertThrows(StaleReferenceException.class, () -> bob(pool));
                pool.root("bob", DurablePerson.class).set(null);
                assertEquals(List.of(), pool.rootNames());
            }
        }
    }

    @Test
    void aTransactionIsWholeOrNothing() throws IOException {
        try (Pool pool = open()) {
            DurablePerson bob = DurablePerson.create(pool);
            DurablePerson eve = DurablePerson.create(pool);
            bob.setPlace("a place with a long name");
            bob.setScore(1);
            IllegalStateException thrown =
                    assertThrows(
                            IllegalStateException.class,
                            () ->
                                    pool.transact(() -> {
                                        bob.setAge(5);
                                        bob.setPlace("another place with a long name");
                                        bob.setScore(2);
                                        eve.delete();
                                        assertEquals(5, bob.getAge());
                                        assertEquals(
                                                "another place with a long name", bob.getPlace());
                                        assertThrows(
                                                StaleReferenceException.class, () -> eve.setAge(1));
                                        throw new IllegalStateException("on purpose");
                                    }));
            assertEquals("on purpose", thrown.getMessage());
            assertEquals(0, bob.getAge());
            assertEquals("a place with a long name", bob.getPlace());
            assertEquals(1.0, bob.getScore());
            assertTrue(eve.isAlive());
            pool.transact(() -> {
                bob.setAge(6);
                pool.transact(() -> eve.setAge(7));
            });
            assertEquals(6, bob.getAge());
            assertEquals(7, eve.getAge());
        }
    }

    @Test
    void whatFailedWithinATransactionFailsIt() throws IOException {
        try (Pool pool = open()) {
            DurablePerson bob = DurablePerson.create(pool);
            assertThrows(
                    TransactionAbortedException.class,
                    () ->
                            pool.transact(() -> {
                                bob.setAge(1);
                                assertThrows(
                                        IllegalArgumentException.class,
                                        () ->
                                                pool.transact(() -> {
                                                    throw new IllegalArgumentException();
                                                }));
                            }));
            assertEquals(0, bob.getAge());
            bob.setAge(2);
            assertEquals(2, bob.getAge());
        }
    }

    @Test
    void whatIsDeletedIsNotFoundInWhatComesThere() throws IOException {
        try (Pool pool = open()) {
            DurablePerson first = DurablePerson.create(pool);
            DurablePerson friend = DurablePerson.create(pool);
            friend.setFriend(first);
            first.delete();
            assertFalse(first.isAlive());
            DurablePerson second = DurablePerson.create(pool);
            assertEquals(first.record(), second.record(), "the place is used again");
            assertNotEquals(first, second);
            second.setAge(3);
            assertThrows(StaleReferenceException.class, first::getAge);
            assertThrows(StaleReferenceException.class, first::getName);
            assertThrows(StaleReferenceException.class, () -> first.setAge(4));
            assertThrows(StaleReferenceException.class, () -> first.setPlace("x"));
            assertThrows(StaleReferenceException.class, first::delete);
            assertThrows(StaleReferenceException.class, () -> first.copyRow(new double[12]));
            assertThrows(StaleReferenceException.class, friend::getFriend);
            assertEquals(3, second.getAge());
        }
    }

    @Test
    void aClosedPoolSaysSo() throws IOException {
        Pool pool = open();
        Pool again = open();
        assertEquals(pool, again);
        DurablePerson bob = DurablePerson.create(pool);
        bob.setName("a name that is longer than a slot");
        again.close();
        bob.setAge(1);
        pool.close();
        assertThrows(PoolClosedException.class, bob::getAge);
        assertThrows(PoolClosedException.class, bob::getName);
        assertThrows(PoolClosedException.class, () -> bob.setAge(1));
        assertThrows(PoolClosedException.class, () -> bob.copyRow(new double[12]));
        assertThrows(PoolClosedException.class, () -> DurablePerson.create(pool));
        assertThrows(PoolClosedException.class, () -> pool.transact(() -> {}));
    }

    @Test
    void aPoolThatIsFullStaysAsItWas() throws IOException {
        PoolOptions tiny = SMALL.pmem(1 << 20).disk(StorageTier.SSD, dir, 2 << 20);
        try (Pool pool = Pool.open(dir.resolve("tiny"), tiny)) {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setPlace("the place");
            bob.setImage(new byte[] {1, 2, 3, 4, 5, 6, 7, 8, 9});
            String before = bob.contents();
            assertThrows(
                    PoolFullException.class,
                    () ->
                            pool.transact(() -> {
                                while (true) {
                                    DurablePerson.create(pool);
                                }
                            }));
            assertEquals(before, bob.contents());
            assertThrows(PoolFullException.class, () -> bob.setPlace("x".repeat(1 << 20)));
            assertThrows(PoolFullException.class, () -> bob.setImage(new byte[1 << 20]));
            assertEquals(before, bob.contents());
            bob.setName("y".repeat(700_000));
            assertEquals(
                    700_000,
                    Objects.requireNonNull(bob.getName()).length(),
                    "the disk takes what PMEM has no room for");
            bob.setName(null);
            assertEquals(before, bob.contents());
        }
    }

    @Test
    void roomComesBack() throws IOException {
        try (Pool pool = Pool.open(dir.resolve("tiny"), SMALL.pmem(1 << 20))) {
            for (int round = 0; round < 2_000; round++) {
                DurablePerson person = DurablePerson.create(pool);
                person.setPlace("x".repeat(round * 31 % 60_000));
                person.delete();
            }
        }
    }

    /// The place of an object is another's, of another class, whose words are no slots.
    @Test
    void whatIsInADeletedObjectsPlaceIsNeverRead() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setPlace("a place that has a buffer of its own");
            int words = Layout.of(DurablePerson.TYPE.fields()).bytes() / Long.BYTES - 2;
            FieldSpec[] fields = new FieldSpec[words];
            java.util.Arrays.setAll(fields, i -> FieldSpec.of("word" + i, FieldKind.LONG));
            ObjectType<DurableRecord> type = ObjectType.of("dev.terrace.objects.Words", fields);
            bob.delete();
            DurableRecord other = pool.create(type);
            assertEquals(
                    References.recordOf(bob.reference()), References.recordOf(other.reference()));
            for (long bits : new long[] {-1, 0x1234_5678_0002L, 0xff_0000_0013L, 0x81}) {
                for (int i = 0; i < words; i++) {
                    pool.fields().setBits(other, i, FieldKind.LONG, bits);
                }
                for (Executable look :
                        List.<Executable>of(
                                bob::getAge,
                                bob::getPlace,
                                bob::getName,
                                bob::getImage,
                                bob::getRow,
                                bob::getHeight,
                                bob::getMood,
                                bob::getFriend,
                                bob::getBalance,
                                bob::isActive)) {
                    assertThrows(
                            StaleReferenceException.class,
                            look,
                            "words are " + Long.toHexString(bits));
                }
            }
        }
    }

    /// A read may be repeated: what it did would be done several times.
    @Test
    void aConsistentReadSetsNothing() throws IOException {
        try (Pool pool = open()) {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setAge(1);
            assertThrows(
                    PoolReadOnlyException.class,
                    () ->
                            pool.read(() -> {
                                bob.setAge(bob.getAge() + 1);
                                return bob;
                            }));
            assertEquals(1, bob.getAge());
            pool.transact(() ->
                    pool.read(() -> {
                        bob.setAge(bob.getAge() + 1);
                        return bob;
                    }));
            assertEquals(2, bob.getAge(), "in a transaction nothing is repeated");
        }
    }

    @Test
    void aTransactionDoesNotCloseItsPool() throws IOException {
        try (Pool pool = open()) {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setAge(1);
            pool.root("bob", DurablePerson.class).set(bob);
            IllegalStateException refused =
                    assertThrows(
                            IllegalStateException.class,
                            () ->
                                    pool.transact(() -> {
                                        bob.setAge(2);
                                        OpenPools.close(pool);
                                    }));
            assertTrue(refused.getMessage().contains("within a transaction"), refused::getMessage);
            assertEquals(1, bob.getAge());
            pool.transact(() -> {
                try (Pool same = open()) {
                    bob(same).setAge(3);
                } catch (IOException e) {
                    throw new java.io.UncheckedIOException(e);
                }
            });
            assertEquals(3, bob.getAge(), "one that stays open can be closed once more");
        }
    }

    @Test
    void aPoolKeepsItsIdentity() throws IOException {
        UUID id;
        try (Pool pool = open()) {
            id = pool.id();
            try (Pool reader = Pool.open(dir.resolve("people"), SMALL.toRead())) {
                assertEquals(id, reader.id());
            }
        }
        try (Pool pool = open();
                Pool other = Pool.open(dir.resolve("others"), SMALL)) {
            assertEquals(id, pool.id());
            assertNotEquals(id, other.id());
        }
    }

    /// Nobody commits while it runs, and it runs once.
    @Test
    void whoReadsAloneIsNotOvertaken() throws Exception {
        try (Pool pool = open()) {
            DurablePerson bob = DurablePerson.create(pool);
            AtomicBoolean isOver = new AtomicBoolean();
            Thread writer =
                    Thread.ofPlatform()
                            .start(() -> {
                                while (!isOver.get()) {
                                    bob.setAge(bob.getAge() + 1);
                                }
                            });
            try {
                for (int i = 0; i < 20; i++) {
                    int[] runs = {0};
                    int first =
                            pool.readAlone(() -> {
                                runs[0]++;
                                int age = bob.getAge();
                                for (int look = 0; look < 1000; look++) {
                                    assertEquals(age, bob.getAge());
                                    assertEquals(age, pool.read(bob::getAge));
                                }
                                return age;
                            });
                    assertEquals(1, runs[0]);
                    assertTrue(bob.getAge() >= first);
                }
                assertThrows(
                        IllegalStateException.class,
                        () ->
                                pool.readAlone(() -> {
                                    throw new IllegalStateException("on purpose");
                                }));
            } finally {
                isOver.set(true);
                writer.join();
            }
        }
    }
}
