package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Directories of backups that become full, lose files, or are used by one that is killed: what was
/// there stays, and what is lost is named.
@Timeout(180)
class BackupTargetTest {
    private static final String FIRST = "pack-0000000000000001";
    private static final String SECOND = "pack-0000000000000002";

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

    private Backup addAfter(int number) throws IOException {
        try (Pool pool = rig.open()) {
            if (number > 0) {
                new KillWorkload(pool).step(number);
            }
            return rig.backups().add(pool, false);
        }
    }

    /// Why a backup cannot be made with so much room left; null if it can.
    private static @Nullable IOException failure(Tmpfs device, int room, Pool pool)
            throws IOException {
        Path ballast = device.at().resolve("ballast");
        long free = Files.getFileStore(device.at()).getUsableSpace();
        Files.write(ballast, new byte[(int) Math.max(0, free - room)]);
        try {
            Backups.in(device.at().resolve("backups")).add(pool, false);
            return null;
        } catch (IOException full) {
            return full;
        } finally {
            Files.delete(ballast);
        }
    }

    @Test
    void aDeviceThatBecomesFullAtAnyPoint() throws IOException {
        try (Tmpfs device = new Tmpfs(dir.resolve("full"), "24m");
                Pool pool = rig.open()) {
            rig.to(device.at().resolve("backups"));
            KillWorkload workload = new KillWorkload(pool);
            int number = 0;
            int failed = 0;
            for (int expected = 1; expected <= 3; expected++) {
                List<String> before = expected == 1 ? List.of() : BackupRig.names(rig.target());
                int room = 0;
                IOException full = failure(device, room, pool);
                while (full != null) {
                    failed++;
                    assertTrue(full.getMessage().contains("backups"), full.getMessage());
                    if (expected > 1) {
                        assertEquals(before, BackupRig.names(rig.target()));
                        assertEquals(expected - 1, rig.backups().list().size());
                    }
                    room += 20 << 10;
                    full = failure(device, room, pool);
                }
                assertEquals(number, rig.verify(expected));
                assertEquals(List.of(), rig.backups().verify());
                workload.step(++number);
            }
            assertTrue(failed > 20, failed + " points");
            assertEquals(0, rig.verify(1));
        }
    }

    /// Gives what is wrong, as `verify`, `restore` and the next backup tell it.
    private void assertLost(String pack, String how) throws IOException {
        List<String> wrong = rig.backups().verify();
        assertEquals(1, wrong.size(), wrong.toString());
        assertTrue(wrong.getFirst().contains(pack + " is " + how), wrong.getFirst());
        assertTrue(wrong.getFirst().contains("[1, 2]"), wrong.getFirst());
        PoolDamagedException lost = assertThrows(PoolDamagedException.class, () -> rig.verify(1));
        assertTrue(lost.getMessage().contains(pack + " is " + how), lost.getMessage());
        assertFalse(Files.exists(rig.restored().resolve("pool")));
    }

    @Test
    void aMissingPackIsNamedAndTheNextBackupDoesWithoutIt() throws IOException {
        addAfter(0);
        addAfter(1);
        Files.delete(rig.target().resolve(FIRST));
        assertLost(FIRST, "missing");
        assertEquals(3, addAfter(2).number());
        assertEquals(2, rig.verify(3));
        assertEquals(1, rig.backups().verify().size(), "the others are lost still");
        assertEquals(2, rig.backups().keep(1));
        assertEquals(List.of(), rig.backups().verify());
        assertFalse(
                BackupRig.names(rig.target()).contains(SECOND)
                        && BackupRig.names(rig.target()).contains(FIRST));
    }

    @Test
    void aPackWithADamagedIndexIsNamedAndTheNextBackupDoesWithoutIt() throws IOException {
        addAfter(0);
        addAfter(1);
        byte[] bytes = Files.readAllBytes(rig.target().resolve(FIRST));
        bytes[bytes.length - 60] ^= 1;
        Files.write(rig.target().resolve(FIRST), bytes);
        assertLost(FIRST, "damaged");
        assertEquals(3, addAfter(2).number());
        assertEquals(2, rig.verify(3));
    }

    @Test
    void aPackWithADamagedBlockIsNamedAndAnewOnceItIsRemoved() throws IOException {
        addAfter(0);
        addAfter(1);
        byte[] bytes = Files.readAllBytes(rig.target().resolve(FIRST));
        for (int at = 0; at < bytes.length - 4096; at += 1000) {
            bytes[at] ^= 1;
        }
        Files.write(rig.target().resolve(FIRST), bytes);
        assertLost(FIRST, "damaged");
        try (Pool pool = rig.open()) {
            assertThrows(PoolDamagedException.class, () -> rig.backups().add(pool));
        }
        Files.delete(rig.target().resolve(FIRST));
        assertEquals(3, addAfter(2).number());
        assertEquals(2, rig.verify(3));
    }

    @Test
    void aDamagedStateLeavesTheOthers() throws IOException {
        addAfter(0);
        addAfter(1);
        Path state = rig.target().resolve("state-0000000000000001");
        byte[] bytes = Files.readAllBytes(state);
        bytes[70] ^= 1;
        Files.write(state, bytes);
        List<String> wrong = rig.backups().verify();
        assertEquals(1, wrong.size());
        assertTrue(wrong.getFirst().startsWith(state + " is damaged"), wrong.getFirst());
        assertEquals(1, rig.verify(2));
        // What it needs is not known, so nothing is removed.
        List<String> before = BackupRig.names(rig.target());
        assertThrows(PoolDamagedException.class, () -> addAfter(2));
        assertEquals(before, BackupRig.names(rig.target()));
        Files.delete(state);
        assertEquals(3, addAfter(3).number());
        assertEquals(1, rig.verify(2));
    }

    /// A process that makes backups, and keeps two, until it is killed.
    static final class Always {
        public static void main(String[] arguments) throws IOException {
            PoolOptions options = KillWorkload.options(Path.of(arguments[1]));
            Backups backups = Backups.in(Path.of(arguments[2]));
            try (Pool pool = Pool.open(Path.of(arguments[0]), options.toRead())) {
                System.out.println("ready");
                while (true) {
                    backups.add(pool, false);
                    backups.keep(2);
                }
            }
        }
    }

    @Test
    void aBackupThatIsKilledAtAnyPoint() throws Exception {
        Random random = new Random(8);
        try (Pool pool = rig.open()) {
            KillWorkload workload = new KillWorkload(pool);
            int number = 0;
            for (int round = 0; round < 15; round++) {
                try (ChildJvm child =
                        new ChildJvm(Always.class, rig.place(), rig.disk(), rig.target())) {
                    child.expectLine();
                    long end = System.nanoTime() + random.nextInt(400_000_000);
                    do {
                        workload.step(++number);
                    } while (System.nanoTime() < end);
                    child.kill();
                }
                if (Files.exists(rig.target().resolve("terrace-backups"))) {
                    assertEquals(List.of(), rig.backups().verify());
                    for (Backup each : rig.backups().list()) {
                        assertTrue(rig.verify(each.number()) <= number);
                    }
                }
                workload.step(++number);
            }
            assertEquals(number, workload.verify());
            Backup last = rig.backups().add(pool);
            assertEquals(number, rig.verify(last.number()));
            assertFalse(
                    BackupRig.names(rig.target()).stream().anyMatch(name -> name.endsWith(".new")));
        }
        try (Stream<Path> files = Files.list(rig.place())) {
            assertFalse(files.anyMatch(file -> file.getFileName().toString().startsWith("watch-")));
        }
    }

    /// A process that restores the last backup until it is killed.
    static final class Restore {
        public static void main(String[] arguments) throws IOException {
            System.out.println("ready");
            for (int i = 0; true; i++) {
                Path to = Path.of(arguments[1]).resolve("pool" + i);
                Path data = Path.of(arguments[1]).resolve("disk" + i);
                Backups.in(Path.of(arguments[0])).restore(to, KillWorkload.options(data));
            }
        }
    }

    @Test
    void aRestoreThatIsKilledLeavesNoPool() throws Exception {
        addAfter(0);
        Random random = new Random(9);
        for (int round = 0; round < 6; round++) {
            Path all = Files.createDirectory(dir.resolve("all" + round));
            try (ChildJvm child = new ChildJvm(Restore.class, rig.target(), all)) {
                child.expectLine();
                Thread.sleep(random.nextInt(250));
                child.kill();
            }
            for (int i = 0; Files.exists(all.resolve("pool" + i)); i++) {
                Path to = all.resolve("pool" + i);
                PoolOptions there = KillWorkload.options(all.resolve("disk" + i)).existing();
                if (Files.exists(to.resolve("pool"))) {
                    try (Pool pool = Pool.open(to, there)) {
                        assertEquals(0, new KillWorkload(pool).verify());
                    }
                } else {
                    assertThrows(PoolFormatException.class, () -> Pool.open(to, there));
                }
            }
        }
    }

    @Test
    void whoOnlyReadsMakesNothing() throws IOException {
        Path none = dir.resolve("none");
        assertThrows(PoolFormatException.class, () -> Backups.in(none).list());
        assertFalse(Files.exists(none));
        addAfter(0);
        Files.delete(rig.target().resolve("lock"));
        List<String> before = BackupRig.names(rig.target());
        assertEquals(1, rig.backups().list().size());
        assertEquals(List.of(), rig.backups().verify());
        assertEquals(0, rig.verify(1));
        assertEquals(before, BackupRig.names(rig.target()));
    }
}
