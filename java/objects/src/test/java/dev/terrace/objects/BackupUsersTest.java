package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Backups of several users, and several at once.
@Timeout(180)
class BackupUsersTest {
    private static final Duration PATIENCE = Duration.ofSeconds(30);
    private static final Duration SHORT = Duration.ofMillis(300);

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

    static boolean isRoot() throws IOException {
        return Files.getAttribute(Path.of("/proc/self"), "unix:uid").equals(0);
    }

    @Test
    void aSecondBackupAtOnceIsRefused() throws Exception {
        Backups second = Backups.in(dir.resolve("second"));
        try (Pool pool = rig.open()) {
            rig.backups().add(pool, false);
            try (FileChannel held =
                            FileChannel.open(
                                    rig.place().resolve("watch.lock"), StandardOpenOption.WRITE);
                    FileLock lock = held.lock()) {
                assertTrue(lock.isValid());
                PoolBusyException refused =
                        assertThrows(PoolBusyException.class, () -> second.add(pool));
                assertTrue(refused.getMessage().contains("another backup"), refused.getMessage());
                // The refusal did not release the lock, as another process sees.
                try (ChildJvm child =
                        new ChildJvm(Once.class, rig.place(), rig.disk(), dir.resolve("second"))) {
                    assertEquals("ready", child.expectLine());
                    assertTrue(child.expectLine().contains("another backup"));
                }
            }
            try (FileChannel held =
                            FileChannel.open(
                                    dir.resolve("backups").resolve("lock"),
                                    StandardOpenOption.WRITE);
                    FileLock lock = held.lock()) {
                assertTrue(lock.isValid());
                PoolBusyException refused =
                        assertThrows(PoolBusyException.class, () -> rig.backups().add(pool));
                assertTrue(refused.getMessage().contains("is in use"), refused.getMessage());
                assertEquals(1, rig.backups().list().size(), "reading needs no lock");
                assertEquals(List.of(), rig.backups().verify());
            }
            assertEquals(List.of(), second.list());
        }
    }

    @Test
    void twoBackupsInThreadsOfOneProcess() throws Exception {
        rig.makeBulk(40);
        try (Pool pool = rig.open();
                ExecutorService threads = Executors.newFixedThreadPool(4)) {
            List<Future<Backup>> all = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                Backups to = Backups.in(dir.resolve("to" + i));
                all.add(threads.submit(() -> to.add(pool, false)));
            }
            int done = 0;
            for (Future<Backup> each : all) {
                try {
                    assertEquals(1, each.get().number());
                    done++;
                } catch (ExecutionException e) {
                    assertTrue(e.getCause() instanceof PoolBusyException, e.toString());
                }
            }
            assertTrue(done >= 1, "one of them");
        }
    }

    /// A process that makes a backup, and says what came of it.
    static final class Once {
        public static void main(String[] arguments) throws IOException {
            PoolOptions options =
                    KillWorkload.options(Path.of(arguments[1])).toRead().patience(SHORT);
            System.out.println("ready");
            try (Pool pool = Pool.open(Path.of(arguments[0]), options)) {
                System.out.println(Backups.in(Path.of(arguments[2])).add(pool, false).number());
            } catch (TerraceException e) {
                System.out.println(e.getMessage());
            }
        }
    }

    /// Gives the pool to a user.
    private void give(int user) throws IOException {
        for (Path top : List.of(rig.place(), rig.disk())) {
            try (Stream<Path> files = Files.walk(top)) {
                for (Path file : files.toList()) {
                    Files.setAttribute(file, "unix:uid", user);
                    Files.setAttribute(file, "unix:gid", user);
                }
            }
        }
    }

    private boolean canBeNobody() throws IOException {
        List<String> command = new ArrayList<>(ChildJvm.AS_NOBODY);
        String classes =
                KillWorkload.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        command.addAll(List.of("test", "-r", classes));
        return isRoot() && Tmpfs.run(command.toArray(String[]::new)).isEmpty();
    }

    @Test
    void rootsBackupBesideAnotherUsersWriter() throws Exception {
        assumeTrue(canBeNobody(), "as root only");
        open(dir);
        rig.makeBulk(40);
        give(65_534);
        try (ChildJvm writer =
                ChildJvm.asNobody(KillWorkload.Main.class, "write", rig.place(), rig.disk())) {
            int before = Integer.parseInt(writer.expectLine());
            // Without marks this is never of one commit.
            int found = rig.verify(rig.add(PATIENCE, false).number());
            assertTrue(found >= before);
            writer.kill();
        }
        assertEquals(List.of("lock", "pool", "watch.lock"), BackupRig.names(rig.place()));
        for (String name : BackupRig.names(rig.place())) {
            assertEquals(65_534, Files.getAttribute(rig.place().resolve(name), "unix:uid"), name);
        }
        Path theirs = Files.createDirectory(dir.resolve("theirs"));
        Files.setAttribute(theirs, "unix:uid", 65_534);
        try (ChildJvm writer =
                        ChildJvm.asNobody(
                                KillWorkload.Main.class, "write", rig.place(), rig.disk());
                ChildJvm child = ChildJvm.asNobody(Once.class, rig.place(), rig.disk(), theirs)) {
            writer.expectLine();
            assertEquals("ready", child.expectLine());
            assertEquals("1", child.expectLine());
            writer.kill();
        }
    }

    /// A directory that others may pass.
    private static void open(Path directory) throws IOException {
        assertEquals("", Tmpfs.run("chmod", "755", directory.toString()));
    }

    @Test
    void aUserWhoMayOnlyReadWaitsForAMomentWithoutAWriter() throws Exception {
        assumeTrue(canBeNobody(), "as root only");
        open(dir);
        open(rig.place());
        rig.makeBulk(40);
        Path theirs = Files.createDirectory(dir.resolve("theirs"));
        Files.setAttribute(theirs, "unix:uid", 65_534);
        try (ChildJvm writer =
                        new ChildJvm(KillWorkload.Main.class, "write", rig.place(), rig.disk());
                ChildJvm child = ChildJvm.asNobody(Once.class, rig.place(), rig.disk(), theirs)) {
            writer.expectLine();
            assertEquals("ready", child.expectLine());
            String said = child.expectLine();
            assertTrue(said.contains("make the backup as the user whose program writes"), said);
            writer.expectLine();
            writer.kill();
        }
        try (ChildJvm child = ChildJvm.asNobody(Once.class, rig.place(), rig.disk(), theirs)) {
            assertEquals("ready", child.expectLine());
            assertEquals("1", child.expectLine());
        }
        assertEquals(List.of("lock", "pool"), BackupRig.names(rig.place()));
        // Others may read what root has backed up, too.
        rig.add(PATIENCE, false);
        try (ChildJvm child =
                ChildJvm.asNobody(Reading.class, dir.resolve("backups"), theirs.resolve("pool"))) {
            assertEquals("1", child.expectLine());
            assertEquals("[]", child.expectLine());
            assertEquals("restored", child.expectLine());
        }
    }

    /// A process that reads backups, and restores one.
    static final class Reading {
        public static void main(String[] arguments) throws IOException {
            Backups backups = Backups.in(Path.of(arguments[0]));
            System.out.println(backups.list().size());
            System.out.println(backups.verify());
            Path to = Path.of(arguments[1]);
            backups.restore(to, KillWorkload.options(to.resolve("disk")));
            System.out.println("restored");
        }
    }
}
