package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Devices that become full, and threads that are interrupted while they use them.
class DeviceTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int LARGE = 700_000;

    @TempDir Path dir;

    private static String contents(DurablePerson bob) {
        return bob.contents() + bob.pool().rootNames();
    }

    private static DurablePerson makeBob(Pool pool) {
        return pool.transact(() -> {
            DurablePerson bob = DurablePerson.create(pool);
            bob.setPlace("the place");
            bob.setImage(new byte[1000]);
            pool.root("bob", DurablePerson.TYPE).set(bob);
            return bob;
        });
    }

    @Test
    void aFullDeviceOfPersistentMemoryLeavesAPoolAsItWas() throws IOException {
        try (Tmpfs device = new Tmpfs(dir.resolve("pmem"), "2500k")) {
            PoolOptions options = SMALL.disk(StorageTier.SSD, dir);
            String before;
            try (Pool pool = Pool.open(device.at(), options)) {
                DurablePerson bob = makeBob(pool);
                before = contents(bob);
                PoolFullException full =
                        assertThrows(
                                PoolFullException.class,
                                () ->
                                        pool.transact(() -> {
                                            bob.setAge(77);
                                            while (true) {
                                                DurablePerson.create(pool)
                                                        .setPlace("x".repeat(100_000));
                                            }
                                        }));
                assertTrue(full.getMessage().contains("pool"), full.getMessage());
                assertEquals(before, contents(bob));
                assertEquals(
                        2 << 20,
                        Files.size(device.at().resolve("pool")),
                        "what had no room is not left half done");
                bob.setName("y".repeat(LARGE));
                bob.setName("z".repeat(LARGE + 1));
                assertEquals(
                        LARGE + 1,
                        Objects.requireNonNull(bob.getName()).length(),
                        "the disk takes it");
                bob.setName(null);
                bob.setAge(78);
                bob.setAge(0);
            }
            try (Pool pool = Pool.open(device.at(), options)) {
                DurablePerson bob =
                        Objects.requireNonNull(pool.root("bob", DurablePerson.TYPE).get());
                assertEquals(before, contents(bob));
            }
        }
    }

    @Test
    void aFullDiskLeavesAPoolAsItWas() throws IOException {
        try (Tmpfs device = new Tmpfs(dir.resolve("disk"), "2500k")) {
            PoolOptions options = SMALL.disk(StorageTier.SSD, device.at());
            String before;
            try (Pool pool = Pool.open(dir.resolve("people"), options)) {
                DurablePerson bob = makeBob(pool);
                before = contents(bob);
                PoolFullException full =
                        assertThrows(
                                PoolFullException.class,
                                () ->
                                        pool.transact(() -> {
                                            bob.setAge(77);
                                            while (true) {
                                                DurablePerson.create(pool)
                                                        .setImage(new byte[100_000]);
                                            }
                                        }));
                assertTrue(full.getMessage().contains("disk-0"), full.getMessage());
                assertEquals(before, contents(bob));
                bob.setImage(new byte[LARGE]);
                bob.setImage(new byte[1000]);
            }
            try (Pool pool = Pool.open(dir.resolve("people"), options)) {
                DurablePerson bob =
                        Objects.requireNonNull(pool.root("bob", DurablePerson.TYPE).get());
                assertEquals(before, contents(bob));
            }
        }
    }

    @Test
    void whereThereIsNoRoomForAPoolNoneIsMade() throws IOException {
        try (Tmpfs device = new Tmpfs(dir.resolve("pmem"), "600k")) {
            for (int i = 0; i < 2; i++) {
                assertThrows(PoolFullException.class, () -> Pool.open(device.at(), SMALL));
                try (Stream<Path> left = Files.list(device.at())) {
                    assertEquals(
                            List.of("lock"),
                            left.map(path -> path.getFileName().toString()).toList());
                }
            }
            assertThrows(PoolFormatException.class, () -> Pool.open(device.at(), SMALL.existing()));
        }
    }

    /// As a cancelled task is: in the middle of a transaction that makes both files longer.
    @Test
    void anInterruptedThreadFinishesWhatItDoes() throws IOException {
        try (Pool pool = Pool.open(dir.resolve("people"), SMALL)) {
            DurablePerson bob = makeBob(pool);
            pool.transact(() -> {
                Thread.currentThread().interrupt();
                bob.setAge(5);
                bob.setPlace("x".repeat(LARGE));
                bob.setName("y".repeat(LARGE));
                bob.setImage(new byte[LARGE]);
                DurablePerson.create(pool).setImage(new byte[LARGE]);
            });
            assertTrue(Thread.interrupted(), "the thread is told still");
            assertEquals(5, bob.getAge());
            bob.setAge(6);
            bob.setImage(new byte[LARGE - 1]);
        }
        try (Pool pool = Pool.open(dir.resolve("people"), SMALL)) {
            DurablePerson bob = Objects.requireNonNull(pool.root("bob", DurablePerson.TYPE).get());
            assertEquals(6, bob.getAge());
            assertEquals(LARGE, Objects.requireNonNull(bob.getPlace()).length());
            assertEquals(LARGE - 1, Objects.requireNonNull(bob.getImage()).length);
        }
    }

    @Test
    void anInterruptedThreadOpensAndReadsAPool() throws IOException {
        for (boolean interrupted : new boolean[] {false, true}) {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
            try (Pool pool = Pool.open(dir.resolve("people"), SMALL)) {
                makeBob(pool).setImage(new byte[LARGE]);
            }
            try (Pool pool = Pool.open(dir.resolve("people"), SMALL.toRead())) {
                DurablePerson bob =
                        Objects.requireNonNull(pool.root("bob", DurablePerson.TYPE).get());
                assertEquals(LARGE, Objects.requireNonNull(bob.getImage()).length);
            } finally {
                assertEquals(interrupted, Thread.interrupted());
            }
        }
    }
}
