package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.MappedRegion;
import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.lang.foreign.Arena;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Backups beside writers: what is restored is the pool as of one commit of that time.
@Timeout(120)
class BackupTest {
    @TempDir Path dir;

    private BackupRig rig;

    @BeforeEach
    void make() throws IOException {
        rig = new BackupRig(dir);
    }

    @AfterEach
    void remove() throws IOException {
        rig.close();
    }

    private static int number(String line) {
        return Integer.parseInt(line);
    }

    @Test
    void besideAProcessThatAlwaysCommits() throws Exception {
        try (ChildJvm writer =
                new ChildJvm(KillWorkload.Main.class, "write", rig.place(), rig.disk())) {
            AtomicInteger said = new AtomicInteger(number(writer.expectLine()));
            Thread listener =
                    Thread.ofPlatform()
                            .start(() -> {
                                try {
                                    for (String line = writer.line();
                                            line != null;
                                            line = writer.line()) {
                                        said.set(number(line));
                                    }
                                } catch (IOException ended) {
                                    said.set(Integer.MAX_VALUE);
                                }
                            });
            for (int i = 0; i < 6; i++) {
                int before = said.get();
                Backup backup = rig.add();
                // What the writer has said may still be on its way to here.
                int found = rig.verify(backup.number());
                int after = said.get();
                assertTrue(found >= before && found <= after + 1, before + " " + found);
            }
            assertEquals(6, rig.backups().list().size());
            writer.kill();
            listener.join();
        }
        assertEquals(List.of(), rig.backups().verify());
    }

    @Test
    void aWriterThatIsKilledMeanwhile() throws Exception {
        int last = 0;
        for (int round = 0; round < 6; round++) {
            try (ChildJvm writer =
                    new ChildJvm(KillWorkload.Main.class, "write", rig.place(), rig.disk())) {
                int before = number(writer.expectLine());
                int delay = round;
                Thread killer =
                        Thread.ofPlatform()
                                .start(() -> {
                                    try {
                                        Thread.sleep(8L * delay);
                                    } catch (InterruptedException e) {
                                        throw new AssertionError(e);
                                    }
                                    writer.kill();
                                });
                Backup backup = rig.add();
                killer.join();
                last = before;
                for (String line = writer.line(); line != null; line = writer.line()) {
                    last = number(line);
                }
                int found = rig.verify(backup.number());
                assertTrue(found >= before && found <= last + 1, before + " " + found);
                int now = rig.verify(rig.add().number());
                assertTrue(now >= last && now <= last + 1, now + " after " + last);
            }
        }
    }

    /// A process that makes backups until it is killed.
    static final class Main {
        public static void main(String[] arguments) throws IOException {
            PoolOptions options = KillWorkload.options(Path.of(arguments[1]));
            try (Pool pool = Pool.open(Path.of(arguments[0]), options.toRead())) {
                System.out.println("ready");
                while (true) {
                    System.out.println(Backups.in(Path.of(arguments[2])).add(pool, false).number());
                }
            }
        }
    }

    @Test
    void aBackupThatIsKilledLeavesEarlierOnesAndTheWriter() throws Exception {
        long slowest = 0;
        try (Pool pool = rig.open()) {
            KillWorkload workload = new KillWorkload(pool);
            int number = 0;
            for (int round = 0; round < 5; round++) {
                try (ChildJvm child =
                        new ChildJvm(Main.class, rig.place(), rig.disk(), dir.resolve("backups"))) {
                    child.expectLine();
                    for (int i = 0; i < 5 + 3 * round; i++) {
                        long begin = System.nanoTime();
                        workload.step(++number);
                        slowest = Math.max(slowest, System.nanoTime() - begin);
                    }
                    child.kill();
                }
                workload.step(++number);
            }
            assertTrue(slowest < Duration.ofSeconds(5).toNanos(), slowest + " ns");
            assertEquals(number, workload.verify());
            Backup after = rig.backups().add(pool);
            assertEquals(number, rig.verify(after.number()));
            for (Backup each : rig.backups().list()) {
                rig.verify(each.number());
            }
        }
    }

    @Test
    void anUnfinishedFirstBackupIsRefused() throws IOException {
        Path target = Files.createDirectories(dir.resolve("backups"));
        Files.writeString(
                target.resolve("terrace-backups"), "terrace-objects backups, version 1\n");
        Files.write(target.resolve("pack-0000000000000001.new"), new byte[100]);
        PoolFormatException refused =
                assertThrows(
                        PoolFormatException.class,
                        () -> rig.backups().restore(dir.resolve("to"), rig.options()));
        assertTrue(String.valueOf(refused.getMessage()).contains("holds no backup"));
        rig.add();
        try (Stream<Path> files = Files.list(target)) {
            assertFalse(files.anyMatch(file -> file.toString().endsWith(".new")));
        }
    }

    @Test
    void onlyWhatHasChangedIsStored() throws IOException {
        try (Pool pool = rig.open()) {
            Backup first = rig.backups().add(pool);
            assertEquals(0, rig.backups().add(pool).bytesStored());
            new KillWorkload(pool).step(1);
            Backup third = rig.backups().add(pool);
            assertTrue(third.bytesStored() > 0 && third.bytesStored() <= 64 * 65_536);
            assertEquals(first.pool(), third.pool());
            assertEquals(0, rig.verify(1));
            assertEquals(1, rig.verify(3));
            assertEquals(2, rig.backups().keep(1));
            assertEquals(List.of(third), rig.backups().list());
            assertEquals(1, rig.verify(3));
            assertEquals(4, rig.backups().add(pool).number());
        }
    }

    @Test
    void aTransactionUnderWayIsNotInIt() throws IOException {
        try (Pool pool = rig.open()) {
            KillWorkload workload = new KillWorkload(pool);
            pool.transact(() -> {
                workload.step(1);
                try {
                    rig.backups().add(pool);
                } catch (IOException e) {
                    throw new AssertionError(e);
                }
            });
            assertEquals(0, rig.verify(1));
        }
    }

    /// A look at a mapping of what is no more there is a fault, which may be told after it.
    @Test
    void whatAWriterCutsOffIsReadWithoutAFault() throws IOException {
        Path file = dir.resolve("file");
        byte[] bytes = new byte[2 << 20];
        new Random(1).nextBytes(bytes);
        Files.write(file, bytes);
        try (Arena arena = Arena.ofShared();
                MappedRegion region = new MappedRegion(file, 20, 2, Long.MAX_VALUE, true, arena)) {
            byte[] block = new byte[1 << 16];
            assertTrue(region.copy(3 << 19, block));
            assertArrayEquals(Arrays.copyOfRange(bytes, 3 << 19, (3 << 19) + (1 << 16)), block);
            Files.write(file, Arrays.copyOf(bytes, 1 << 20));
            assertFalse(region.copy(3 << 19, block));
            assertTrue(region.copy(1 << 19, block));
        }
    }

    @Test
    void aDiskThatAlwaysGetsLongerAndShorter() throws Exception {
        AtomicBoolean ends = new AtomicBoolean();
        rig.makeBulk(20);
        try (Pool pool = rig.open()) {
            KillWorkload workload = new KillWorkload(pool);
            Thread writer =
                    Thread.ofPlatform()
                            .start(() -> {
                                while (!ends.get()) {
                                    workload.fillAndCompact();
                                }
                            });
            try {
                for (int i = 0; i < 10; i++) {
                    rig.add(Duration.ofSeconds(30), false);
                }
            } finally {
                ends.set(true);
                writer.join();
            }
        }
        assertEquals(0, rig.verify(10));
    }

    @Test
    void threadsOfThisProcessAreHeldUpForABoundedTime() throws Exception {
        AtomicBoolean ends = new AtomicBoolean();
        AtomicInteger number = new AtomicInteger();
        long[] slowest = {0};
        try (Pool pool = rig.open()) {
            Thread writer =
                    Thread.ofPlatform()
                            .start(() -> {
                                Root<KillWorkload.Cell> root =
                                        pool.root("count", KillWorkload.Cell.TYPE);
                                KillWorkload.Cell cell = root.get();
                                while (!ends.get() && cell != null) {
                                    long begin = System.nanoTime();
                                    cell.setNumber(number.get() + 1);
                                    slowest[0] = Math.max(slowest[0], System.nanoTime() - begin);
                                    number.incrementAndGet();
                                }
                            });
            for (int i = 0; i < 3; i++) {
                int before = number.get();
                Backup backup = rig.backups().add(pool, false);
                int after = number.get();
                Path to = dir.resolve("alone" + i);
                Path data = Files.createDirectory(dir.resolve("alone-disk" + i));
                rig.backups().restore(backup.number(), to, KillWorkload.options(data));
                try (Pool copy = Pool.open(to, KillWorkload.options(data))) {
                    KillWorkload.Cell cell = copy.root("count", KillWorkload.Cell.TYPE).get();
                    int found = cell == null ? -1 : cell.number();
                    assertTrue(found >= before && found <= after + 1, before + " " + found);
                }
            }
            ends.set(true);
            writer.join();
        }
        assertTrue(number.get() > 100, "the writer went on");
        assertTrue(slowest[0] < Duration.ofSeconds(5).toNanos(), slowest[0] + " ns");
    }

    @Test
    void aDamagedBackupIsFound() throws IOException {
        rig.add();
        Path pack = dir.resolve("backups").resolve("pack-0000000000000001");
        try (RandomAccessFile file = new RandomAccessFile(pack.toFile(), "rw")) {
            file.seek(100);
            int old = file.read();
            file.seek(100);
            file.write(old ^ 1);
        }
        assertEquals(1, rig.backups().verify().size());
        Path to = dir.resolve("to");
        PoolOptions there = KillWorkload.options(dir.resolve("to-disk"));
        assertThrows(PoolDamagedException.class, () -> rig.backups().restore(to, there));
        assertFalse(Files.exists(to.resolve("pool")));
        Path state = dir.resolve("backups").resolve("state-0000000000000001");
        byte[] bytes = Files.readAllBytes(state);
        bytes[20] ^= 1;
        Files.write(state, bytes);
        assertThrows(PoolDamagedException.class, () -> rig.backups().list());
    }

    @Test
    void aDamagedPoolIsNotBackedUp() throws IOException {
        rig.add();
        try (Pool pool = rig.open()) {
            new KillWorkload(pool).step(1);
        }
        // Values on the rig.disk() have checksums.
        Path file = rig.disk().resolve("disk-0");
        byte[] bytes = Files.readAllBytes(file);
        for (int i = 1 << 16; i < bytes.length; i++) {
            bytes[i] ^= 1;
        }
        Files.write(file, bytes);
        assertThrows(PoolDamagedException.class, rig::add);
        assertEquals(1, rig.backups().list().size());
        assertEquals(List.of(), rig.backups().verify());
        assertEquals(0, rig.verify(1));
    }

    @Test
    void aPackWithoutItsStateIsNotBuiltUpon() throws IOException {
        rig.add();
        try (Pool pool = rig.open()) {
            new KillWorkload(pool).step(1);
            rig.backups().add(pool);
            // As after a kill between the two files.
            Files.delete(dir.resolve("backups").resolve("state-0000000000000002"));
            new KillWorkload(pool).step(2);
            assertEquals(2, rig.backups().add(pool, false).number());
        }
        assertEquals(List.of(), rig.backups().verify());
        assertEquals(2, rig.verify(2));
    }

    @Test
    void aTargetThatCannotBeWrittenKeepsEarlierBackups() throws IOException {
        rig.add();
        Path blocked = dir.resolve("backups").resolve("pack-0000000000000002.new");
        Files.createDirectories(blocked.resolve("a"));
        assertThrows(IOException.class, rig::add);
        Files.delete(blocked.resolve("a"));
        Files.delete(blocked);
        assertEquals(1, rig.backups().list().size());
        assertEquals(0, rig.verify(1));
        assertEquals(2, rig.add().number());
    }

    @Test
    void valuesOnARemoteTierAreRefused() throws IOException {
        Path there = dir.resolve("remote");
        PoolOptions remote =
                PoolOptions.defaults()
                        .extents(1 << 20)
                        .remote(new RecordingSegmentStore(new ArrayList<>()));
        try (Pool pool = Pool.open(there, remote)) {
            pool.create(Thing.on(StorageTier.REMOTE)).setBytes(new byte[100]);
            PoolFormatException refused =
                    assertThrows(PoolFormatException.class, () -> rig.backups().add(pool));
            assertTrue(String.valueOf(refused.getMessage()).contains("remote tier"));
            assertEquals(List.of(), rig.backups().list());
        }
    }

    @Test
    void wrongPlacesAreRefused() throws IOException {
        Path foreign = Files.createDirectory(dir.resolve("foreign"));
        Files.writeString(foreign.resolve("a"), "a");
        try (Pool pool = rig.open()) {
            assertThrows(PoolFormatException.class, () -> Backups.in(foreign).add(pool));
            assertThrows(
                    PoolFormatException.class,
                    () -> Backups.in(rig.place().resolve("backups")).add(pool));
            assertThrows(IllegalArgumentException.class, () -> rig.backups().keep(0));
            rig.backups().add(pool);
            assertThrows(
                    FileAlreadyExistsException.class,
                    () -> rig.backups().restore(rig.place(), rig.options()));
            assertThrows(
                    PoolFormatException.class,
                    () -> rig.backups().restore(7, dir.resolve("to"), rig.options()));
            PoolOptions other = PoolOptions.defaults().disk(StorageTier.HDD, dir);
            assertThrows(
                    PoolFormatException.class,
                    () -> rig.backups().restore(dir.resolve("to"), other));
        }
        try (PoolDir other = new PoolDir()) {
            assertThrows(PoolFormatException.class, () -> rig.backups().add(other.pool()));
        }
    }

    @Test
    void aSealedPoolStaysSealedAndACopyHasItsOwnIdentity() throws IOException {
        UUID id;
        try (Pool pool = rig.open()) {
            id = pool.id();
            pool.seal();
        }
        Backup backup = rig.add();
        assertEquals(id, backup.pool());
        Path to = dir.resolve("to");
        Path data = Files.createDirectory(dir.resolve("data"));
        assertNotEquals(backup.pool(), rig.backups().restore(to, KillWorkload.options(data)));
        assertThrows(PoolReadOnlyException.class, () -> Pool.open(to, KillWorkload.options(data)));
        // A rig.disk() of one is none of the other.
        assertThrows(PoolFormatException.class, () -> Pool.open(to, rig.options().toRead()));
    }
}
