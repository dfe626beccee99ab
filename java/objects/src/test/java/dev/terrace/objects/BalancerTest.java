package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Fields with several tags make room for what must be in persistent memory, and come back when
/// there is room again.
class BalancerTest {
    private static final PoolOptions TINY = PoolOptions.defaults().extents(1 << 20).pmem(1 << 20);
    private static final long NEVER_MS = 60_000;

    /// A tenth of persistent memory.
    private static final int ELEMENTS = 30;

    @TempDir(factory = InMemory.class)
    Path dir;

    private static String name(int i) {
        return ("name " + i + " ").repeat(200);
    }

    private static List<DurablePerson> fill(Pool pool) {
        List<DurablePerson> people = new ArrayList<>();
        for (int i = 0; pool.demotedBytes() == 0; i++) {
            DurablePerson person = DurablePerson.create(pool);
            person.setName(name(i));
            person.setAge(i);
            people.add(person);
            assertTrue(i < 20_000, "a pool of a MiB takes 20,000 names");
        }
        return people;
    }

    private static void mustHoldTheirNames(List<DurablePerson> people) {
        for (int i = 0; i < people.size(); i++) {
            assertEquals(name(i), people.get(i).getName());
            assertEquals(i, people.get(i).getAge());
        }
    }

    @Test
    void whatMayLieElsewhereMakesRoomAndComesBack() throws IOException, InterruptedException {
        try (Pool pool = Pool.open(dir, TINY)) {
            List<DurablePerson> people = fill(pool);
            assertTrue(pool.statistics().used().get(1) > 0, "something lies on the disk");
            List<DurablePerson> more = new ArrayList<>();
            for (int i = 0; i < 150; i++) {
                DurablePerson person = DurablePerson.create(pool);
                person.setPlace(name(i));
                more.add(person);
            }
            mustHoldTheirNames(people);
            assertEquals(List.of(), pool.check().problems());
            long before = pool.promotedBytes();
            more.forEach(DurableObject::delete);
            long deadline = System.currentTimeMillis() + NEVER_MS;
            while (pool.promotedBytes() == before) {
                assertTrue(System.currentTimeMillis() < deadline, "nothing comes back");
                Thread.sleep(5);
            }
            mustHoldTheirNames(people);
            assertEquals(List.of(), pool.check().problems());
        }
    }

    @Test
    void elementsOfCollectionsMakeRoomAndComeBack() throws IOException, InterruptedException {
        try (Pool pool = Pool.open(dir, TINY)) {
            DurableList<String> list =
                    DurableList.root(
                            pool, "list", ElementType.STRING, StorageTier.PMEM, StorageTier.DISK);
            DurableMap<String, String> map =
                    DurableMap.root(
                            pool,
                            "map",
                            ElementType.STRING,
                            ElementType.STRING,
                            StorageTier.PMEM,
                            StorageTier.DISK);
            for (int i = 0; i < ELEMENTS; i++) {
                list.add(name(i));
                map.put("key " + i, name(i));
            }
            assertEquals(0, pool.statistics().used().get(1));
            List<DurablePerson> more = new ArrayList<>();
            while (pool.demotedBytes() == 0) {
                DurablePerson person = DurablePerson.create(pool);
                person.setPlace(name(0));
                more.add(person);
            }
            assertTrue(pool.statistics().used().get(1) > 0, "something lies on the disk");
            Runnable check =
                    () -> {
                        for (int i = 0; i < ELEMENTS; i++) {
                            assertEquals(name(i), list.get(i));
                            assertEquals(name(i), map.get("key " + i));
                        }
                        assertEquals(List.of(), pool.check().problems());
                    };
            check.run();
            more.forEach(DurableObject::delete);
            long deadline = System.currentTimeMillis() + NEVER_MS;
            while (pool.promotedBytes() == 0) {
                assertTrue(System.currentTimeMillis() < deadline, "nothing comes back");
                Thread.sleep(5);
            }
            check.run();
        }
    }

    @Test
    void aTransactionThatFindsNoRoomFindsItTheNextTime() throws IOException {
        try (Pool pool = Pool.open(dir, TINY)) {
            List<DurablePerson> people = new ArrayList<>();
            while (pool.statistics().used().get(1) == 0) {
                DurablePerson person = DurablePerson.create(pool);
                person.setName(name(people.size()));
                person.setAge(people.size());
                people.add(person);
            }
            Runnable big =
                    () ->
                            pool.transact(() -> {
                                for (int i = 0; i < 100; i++) {
                                    DurablePerson.create(pool).setPlace(name(0).substring(0, 400));
                                }
                            });
            long objects = people.size();
            assertThrows(PoolFullException.class, big::run);
            assertEquals(objects, count(pool));
            for (int i = 0; count(pool) == objects; i++) {
                try {
                    big.run();
                } catch (PoolFullException e) {
                    assertTrue(i < 50, "it never fits");
                }
            }
            assertEquals(objects + 100, count(pool));
            mustHoldTheirNames(people);
        }
    }

    private static long count(Pool pool) {
        long count = 0;
        Cursor<DurablePerson> cursor = pool.cursor(DurablePerson.TYPE);
        while (cursor.next()) {
            count++;
        }
        return count;
    }

    @Test
    void whereNothingCanMoveAFullPoolSaysSo() throws IOException {
        try (Pool pool = Pool.open(dir, TINY)) {
            PoolFullException full =
                    assertThrows(
                            PoolFullException.class,
                            () -> {
                                while (true) {
                                    DurablePerson.create(pool).setPlace(name(1));
                                }
                            });
            assertTrue(full.getMessage().contains("pool"), full::getMessage);
            assertEquals(0, pool.demotedBytes());
            assertEquals(List.of(), pool.check().problems());
        }
    }
}
