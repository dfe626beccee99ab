package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What nobody should ask of a pool, and what is said then.
class MisuseTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final ObjectType<Thing> ON_HDD = Thing.on(StorageTier.HDD);
    private static final byte[] VALUE = new byte[200_000];

    @TempDir(factory = InMemory.class)
    Path dir;

    private Path make(String name) throws IOException {
        return Files.createDirectory(dir.resolve(name));
    }

    private static Thing thing(Pool pool, ObjectType<Thing> type) {
        return Objects.requireNonNull(pool.root("thing", type).get());
    }

    @Test
    void optionsThatCannotBeAreRefused() {
        PoolOptions eight = SMALL;
        for (int i = 0; i < 8; i++) {
            eight = eight.disk(StorageTier.HDD, dir);
        }
        PoolOptions full = eight;
        assertThrows(IllegalArgumentException.class, () -> full.disk(StorageTier.SSD, dir));
        assertThrows(IllegalArgumentException.class, () -> SMALL.disk(StorageTier.PMEM, dir));
        assertThrows(IllegalArgumentException.class, () -> SMALL.disk(StorageTier.SSD, dir, 0));
        assertThrows(IllegalArgumentException.class, () -> SMALL.pmem(-1));
        assertThrows(IllegalArgumentException.class, () -> SMALL.extents(3 << 20));
        assertThrows(IllegalArgumentException.class, () -> SMALL.patience(Duration.ofSeconds(-1)));
    }

    @Test
    void whatIsNoPoolStaysAsItWas() throws IOException {
        Path empty = make("empty");
        for (PoolOptions options : List.of(SMALL.existing(), SMALL.toRead())) {
            PoolFormatException e =
                    assertThrows(PoolFormatException.class, () -> Pool.open(empty, options));
            assertTrue(e.getMessage().contains(empty + " has no file pool"), e.getMessage());
        }
        try (Stream<Path> files = Files.list(empty)) {
            assertEquals(0, files.count(), "nothing was made there");
        }
        Path parent = make("parent");
        Files.createDirectory(parent.resolve("pool"));
        assertThrows(PoolFormatException.class, () -> Pool.open(parent, SMALL));
        Path letter = Files.writeString(dir.resolve("letter"), "Dear Sirs");
        for (PoolOptions options : List.of(SMALL, SMALL.existing(), SMALL.toRead())) {
            PoolFormatException e =
                    assertThrows(PoolFormatException.class, () -> Pool.open(letter, options));
            assertTrue(e.getMessage().contains(letter + " is no directory"), e.getMessage());
        }
    }

    @Test
    void allDisksWithValuesMustBeNamed() throws IOException {
        PoolOptions one = SMALL.disk(StorageTier.SSD, make("ssd"));
        PoolOptions two = one.disk(StorageTier.HDD, make("hdd"));
        Path place = dir.resolve("pool");
        try (Pool pool = Pool.open(place, two)) {
            Thing thing = pool.create(ON_HDD);
            thing.setBytes(VALUE);
            pool.root("thing", ON_HDD).set(thing);
        }
        for (PoolOptions options : List.of(one, one.toRead())) {
            PoolFormatException e =
                    assertThrows(PoolFormatException.class, () -> Pool.open(place, options));
            assertTrue(e.getMessage().contains("has values on disk 1"), e.getMessage());
        }
        try (Pool pool = Pool.open(place, two)) {
            assertArrayEquals(VALUE, thing(pool, ON_HDD).getBytes());
        }
    }

    @Test
    void aDiskIsNamedAsTheTierThatItIs() throws IOException {
        Path disk = make("disk");
        PoolOptions options = SMALL.disk(StorageTier.HDD, disk);
        PoolOptions wrong = SMALL.disk(StorageTier.SSD, disk);
        Path place = dir.resolve("pool");
        try (Pool pool = Pool.open(place, options)) {
            Thing thing = pool.create(ON_HDD);
            thing.setBytes(VALUE);
            pool.root("thing", ON_HDD).set(thing);
        }
        for (PoolOptions each : List.of(wrong, wrong.toRead())) {
            PoolFormatException e =
                    assertThrows(PoolFormatException.class, () -> Pool.open(place, each));
            assertTrue(
                    e.getMessage().contains("disk-0 is of the tier HDD, and was named as SSD"),
                    e.getMessage());
        }
        try (Pool pool = Pool.open(place, options.toRead())) {
            assertArrayEquals(VALUE, thing(pool, ON_HDD).getBytes());
        }
        Path file = disk.resolve("disk-0");
        byte[] bytes = Files.readAllBytes(file);
        byte[] damaged = bytes.clone();
        damaged[40] ^= 1;
        Files.write(file, damaged);
        assertThrows(PoolDamagedException.class, () -> Pool.open(place, options.toRead()));
        // As older libraries left it.
        Arrays.fill(bytes, 40, 56, (byte) 0);
        Files.write(file, bytes);
        Pool.open(place, wrong.toRead()).close();
    }

    @Test
    void aDiskThatWasNotNamedIsNoDamage() throws IOException {
        Path place = dir.resolve("pool");
        try (Pool pool = Pool.open(place, SMALL.disk(StorageTier.HDD, make("disk")))) {
            pool.create(ON_HDD).setBytes(VALUE);
        }
        for (PoolOptions options : List.of(SMALL, SMALL.toRead())) {
            PoolFormatException e =
                    assertThrows(PoolFormatException.class, () -> Pool.open(place, options));
            assertTrue(
                    e.getMessage()
                            .contains("name the directory that it is in as the pool's disk 0"),
                    e.getMessage());
        }
    }

    @Test
    void aTierThatThePoolHasNotIsNamed() throws IOException {
        try (Pool pool = Pool.open(dir.resolve("pool"), SMALL)) {
            Thing thing = pool.create(ON_HDD);
            IllegalArgumentException e =
                    assertThrows(IllegalArgumentException.class, () -> thing.setBytes(VALUE));
            assertTrue(e.getMessage().contains("has no tier HDD"), e.getMessage());
            assertEquals(null, thing.getBytes());
        }
        ObjectType<Thing> first = Thing.named("dev.terrace.objects.Retagged", StorageTier.PMEM);
        ObjectType<Thing> then =
                Thing.named("dev.terrace.objects.Retagged", StorageTier.HDD, StorageTier.SSD);
        ObjectType<Thing> never = Thing.named("dev.terrace.objects.Retagged", StorageTier.HDD);
        try (Pool pool = Pool.open(dir.resolve("retagged"), SMALL)) {
            pool.create(first).setBytes(VALUE);
            assertEquals(1, pool.retier(then).valuesMoved());
            assertEquals(0, pool.retier(then).valuesMoved());
            assertThrows(IllegalArgumentException.class, () -> pool.retier(never));
        }
        ObjectType<Thing> orOnHdd = Thing.on(StorageTier.PMEM, StorageTier.HDD);
        try (Pool pool = Pool.open(dir.resolve("full"), SMALL.pmem(1 << 20))) {
            List<Thing> things = new ArrayList<>();
            assertThrows(
                    PoolFullException.class,
                    () -> {
                        while (true) {
                            Thing thing = pool.create(orOnHdd);
                            things.add(thing);
                            thing.setBytes(VALUE);
                        }
                    });
            assertArrayEquals(VALUE, things.getFirst().getBytes());
            assertEquals(0, pool.retier(orOnHdd).valuesLeft());
        }
    }

    @Test
    void disksOfOneTierAreFilledOneAfterTheOther() throws IOException {
        PoolOptions options =
                SMALL.disk(StorageTier.HDD, make("first"), 1 << 20)
                        .disk(StorageTier.HDD, make("second"), 1 << 20);
        try (Pool pool = Pool.open(dir.resolve("pool"), options)) {
            List<Thing> things = new ArrayList<>();
            while (pool.statistics().used().get(2) == 0) {
                Thing thing = pool.create(ON_HDD);
                thing.setBytes(VALUE);
                things.add(thing);
            }
            assertTrue(
                    pool.statistics().used().get(1) > 3 * VALUE.length,
                    "the first one is full before");
            assertEquals(0, pool.retier(ON_HDD).valuesMoved(), "either is what the tag says");
            things.getFirst().delete();
            Thing another = pool.create(ON_HDD);
            another.setBytes(VALUE);
            long onSecond = pool.statistics().used().get(2);
            assertTrue(onSecond < 2 * VALUE.length, "room on the first is used again");
            assertThrows(
                    PoolFullException.class,
                    () ->
                            pool.transact(() -> {
                                while (true) {
                                    pool.create(ON_HDD).setBytes(VALUE);
                                }
                            }));
            assertEquals(onSecond, pool.statistics().used().get(2));
            assertEquals(List.of(), pool.check().problems());
        }
    }

    @Test
    void aConsistentReadCannotWrite() throws IOException {
        ObjectType<Thing> type = Thing.on(StorageTier.PMEM);
        try (Pool pool = Pool.open(dir.resolve("pool"), SMALL)) {
            Thing thing = pool.create(type);
            thing.setNumber(1);
            for (Runnable write :
                    List.<Runnable>of(
                            () -> thing.setNumber(2),
                            () -> thing.setText("two"),
                            () -> pool.create(type),
                            thing::delete)) {
                assertThrows(
                        PoolReadOnlyException.class,
                        () ->
                                pool.read(() -> {
                                    write.run();
                                    return true;
                                }));
            }
            assertEquals(1, thing.getNumber());
            assertEquals(null, thing.getText());
        }
    }

    @Test
    void aTransactionThatIsTooLargeDoesNotMakeThePoolLonger() throws IOException {
        ObjectType<Thing> type = Thing.on(StorageTier.PMEM);
        try (Pool pool = Pool.open(dir.resolve("pool"), SMALL)) {
            List<Thing> things = new ArrayList<>();
            // A word more than half an extent has room for, with its place.
            int count = (1 << 20) / 2 / 16 + 1;
            pool.transact(() -> {
                for (int i = 0; i < count; i++) {
                    things.add(pool.create(type));
                }
            });
            long before = pool.statistics().capacity().getFirst();
            PoolFullException e =
                    assertThrows(
                            PoolFullException.class,
                            () ->
                                    pool.transact(() -> {
                                        things.forEach(thing -> thing.setNumber(1));
                                        for (int i = 0; i < 50; i++) {
                                            pool.create(type).setBytes(VALUE);
                                        }
                                    }));
            assertTrue(e.getMessage().contains("divide it"), e.getMessage());
            assertEquals(before, pool.statistics().capacity().getFirst());
            assertEquals(0, things.getLast().getNumber());
        }
    }

    @Test
    void aPoolIsNotClosedInTheMiddleOfItsWork() throws IOException {
        try (Pool pool = Pool.open(dir.resolve("pool"), SMALL)) {
            Thing thing = pool.create(Thing.on(StorageTier.PMEM));
            Runnable close = pool::close;
            assertThrows(IllegalStateException.class, () -> pool.transact(close));
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.read(() -> {
                                close.run();
                                return true;
                            }));
            pool.transact(() -> {
                try (Pool again = Pool.open(dir.resolve("pool"), SMALL)) {
                    assertEquals(pool, again);
                    thing.setNumber(3);
                } catch (IOException e) {
                    throw new AssertionError(e);
                }
            });
            assertEquals(3, thing.getNumber());
        }
    }
}
