package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.MappedRegion;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.Region;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.Superblock;
import dev.terrace.objects.internal.store.Watch;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Marks of what changes: a backup believes them as far as they tell all, whoever writes, and does
/// without them where it must.
@Timeout(180)
class BackupMarksTest {
    private static final Duration PATIENCE = Duration.ofSeconds(30);

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

    /// A writer of a library that knows nothing of backups: it neither looks for requests nor
    /// marks.
    private Pool older(Arena arena) throws IOException {
        Path file = rig.place().resolve("pool");
        ByteBuffer page = ByteBuffer.allocate(Superblock.BYTES).order(ByteOrder.LITTLE_ENDIAN);
        try (FileChannel channel = FileChannel.open(file)) {
            channel.read(page, 0);
        }
        Superblock superblock = Superblock.read("older", page.array(), false);
        int shift = superblock.extentShift();
        int extents = (int) page.getLong((int) Superblock.EXTENTS_AT);
        Region pmem = new MappedRegion(file, shift, extents, Long.MAX_VALUE, false, arena);
        Store.finishCommit(superblock, pmem, false);
        int onDisk = (int) pmem.getLong(Superblock.DISKS_AT);
        Region data =
                new MappedRegion(
                        rig.disk().resolve("disk-0"), shift, onDisk, Long.MAX_VALUE, false, arena);
        Store.TierRegion tier = new Store.TierRegion(Medium.SSD, data);
        return Pool.on(new Store(superblock, pmem, List.of(tier), null, false));
    }

    private static <T> T with(Callable<T> background, Callable<Boolean> meanwhile)
            throws Exception {
        try (ExecutorService threads = Executors.newSingleThreadExecutor()) {
            Future<T> result = threads.submit(background);
            while (!result.isDone() && meanwhile.call()) {
                Thread.onSpinWait();
            }
            return result.get();
        }
    }

    /// What writers of this process have done.
    private final class Done {
        private final NavigableMap<Long, Integer> numbers = new TreeMap<>();
        private int number;

        /// Does so many transactions.
        void write(Pool pool, int steps) {
            KillWorkload workload = new KillWorkload(pool);
            number = workload.verify();
            for (int i = 0; i < steps; i++) {
                workload.step(++number);
                numbers.put(pool.store().sequence() / 2, number);
            }
        }

        void write(int steps) throws IOException {
            try (Pool pool = rig.open()) {
                write(pool, steps);
            }
        }

        void writeAsOlder(int steps) throws IOException {
            try (Arena arena = Arena.ofShared();
                    Pool pool = older(arena)) {
                write(pool, steps);
            }
        }

        /// A backup holds what was there at the commit that it names: its first page alone says
        /// which. A transaction may be several commits, and begins with its changes.
        void verify(Backup backup) throws IOException {
            int found = rig.verify(backup.number());
            Map.Entry<Long, Integer> at = numbers.floorEntry(backup.commit());
            if (at != null) {
                int expected = at.getValue();
                assertTrue(
                        found == expected || found == expected + 1,
                        found + " at commit " + backup.commit() + ", and not " + expected);
            }
        }
    }

    /// One that marks begins, and ends at any time; an older one writes and ends, and so on. A
    /// backup of that time may hold no state but one of theirs, whole.
    @Test
    void writersThatMarkAndOthersTakeTurns() throws Exception {
        rig.makeBulk(60);
        Random random = new Random(3);
        Done done = new Done();
        done.write(1);
        for (int round = 0; round < 6; round++) {
            int before = done.number;
            Backup backup =
                    with(
                            () -> rig.add(PATIENCE, false),
                            () -> {
                                done.write(1 + random.nextInt(300));
                                done.writeAsOlder(1 + random.nextInt(4));
                                Thread.sleep(random.nextInt(800));
                                return true;
                            });
            done.verify(backup);
            assertTrue(backup.commit() > 0 && done.number >= before);
        }
        assertEquals(List.of(), rig.backups().verify());
    }

    /// The same, where the one that marks is killed while a backup copies what it has not changed.
    @Test
    void aKilledWriterIsFollowedByOneThatDoesNotMark() throws Exception {
        rig.makeBulk(120);
        try (Arena arena = Arena.ofShared()) {
            MemorySegment words = words(rig.place().resolve("pool"), arena);
            for (int round = 0; round < 3; round++) {
                Done done = new Done();
                try (ChildJvm writer =
                        new ChildJvm(KillWorkload.Main.class, "write", rig.place(), rig.disk())) {
                    writer.expectLine();
                    boolean[] ended = {false};
                    Backup backup =
                            with(
                                    () -> rig.add(PATIENCE, false),
                                    () -> {
                                        writer.expectLine();
                                        long request = word(words, Watch.REQUEST_AT);
                                        long session = word(words, Watch.SESSION_AT);
                                        if (request != 0 && Watch.requestOf(session) == request) {
                                            writer.kill();
                                            done.writeAsOlder(2);
                                            ended[0] = true;
                                        }
                                        return !ended[0];
                                    });
                    done.verify(backup);
                    assertTrue(ended[0], "a session has begun");
                }
            }
        }
    }

    /// Nothing else changes in their blocks: neighbors stay as they are, and headers were written
    /// when the chunk was cut.
    @Test
    void newObjectsInColumnsAreMarked() throws Exception {
        ObjectType<DurableRecord> type =
                ObjectType.of("Tick", FieldSpec.of("number", FieldKind.INT)).inColumns();
        rig.makeBulk(60);
        for (int round = 0; round < 3; round++) {
            Backup backup;
            try (Pool pool = rig.open()) {
                int[] made = {0};
                Callable<Boolean> make =
                        () -> {
                            pool.transact(() -> pool.create(type).setInt(0, ++made[0]));
                            return true;
                        };
                make.call();
                backup = with(() -> rig.add(PATIENCE, false), make);
                for (Cursor<DurableRecord> each = pool.cursor(type); each.next(); ) {
                    each.get().delete();
                }
            }
            Path to = dir.resolve("restored" + round);
            Path data = Files.createDirectory(dir.resolve("data" + round));
            rig.backups().restore(backup.number(), to, KillWorkload.options(data));
            try (Pool copy = Pool.open(to, KillWorkload.options(data).toRead())) {
                assertEquals(List.of(), copy.check().problems());
                int met = 0;
                long sum = 0;
                for (Cursor<DurableRecord> each = copy.cursor(type); each.next(); met++) {
                    sum += each.get().getInt(0);
                }
                assertTrue(met > 0);
                assertEquals(met * (met + 1L) / 2, sum);
            }
        }
    }

    /// Large records, of which a block holds a few.
    static final class Large extends DurableObject {
        static final ObjectType<Large> TYPE =
                ObjectType.of(
                        "dev.terrace.objects.LargeCell",
                        Large.class,
                        Large::new,
                        List.of(),
                        FieldSpec.of("number", FieldKind.INT),
                        FieldSpec.of("row", FieldKind.DOUBLES).ofLength(500));

        int number() {
            return getInt(0, TYPE.offset(0));
        }

        void setNumber(int number) {
            setInt(0, TYPE.offset(0), number);
        }

        static void make(Pool pool, int count) {
            for (int i = 0; i < count; i += 100) {
                int some = Math.min(100, count - i);
                pool.transact(() -> {
                    for (int at = 0; at < some; at++) {
                        pool.create(TYPE);
                    }
                });
            }
        }

        /// All, in the order of their places.
        static List<Large> all(Pool pool) {
            List<Large> all = new ArrayList<>();
            Cursor<Large> cursor = pool.cursor(TYPE);
            while (cursor.next()) {
                all.add(cursor.copy());
            }
            return all;
        }

        /// The object that a step changes.
        static int changed(int step, int count) {
            return Math.floorMod(step * 0x9e3779b1, count);
        }
    }

    /// A process that changes blocks all over the pool until it is told to end, and says how long a
    /// change has taken at most, in microseconds, and how many there were.
    static final class Everywhere {
        public static void main(String[] arguments) throws IOException {
            try (Pool pool =
                    Pool.open(Path.of(arguments[0]), KillWorkload.options(Path.of(arguments[1])))) {
                List<Large> all = Large.all(pool);
                System.out.println("ready");
                long slowest = 0;
                int step = 0;
                while (System.in.available() == 0) {
                    for (int i = 0; i < 1000; i++) {
                        long begin = System.nanoTime();
                        step++;
                        all.get(Large.changed(step, all.size())).setNumber(step);
                        slowest = Math.max(slowest, System.nanoTime() - begin);
                    }
                }
                System.out.println(slowest / 1000);
                System.out.println(step);
            }
        }
    }

    @Test
    void aBackupEndsHoweverManyBlocksChange() throws Exception {
        int count = 20_000;
        try (Pool pool = rig.open()) {
            Large.make(pool, count);
        }
        Backup backup;
        long millis;
        try (ChildJvm writer = new ChildJvm(Everywhere.class, rig.place(), rig.disk())) {
            writer.expectLine();
            long begin = System.nanoTime();
            backup = rig.add(Duration.ofSeconds(20), false);
            millis = (System.nanoTime() - begin) / 1_000_000;
            writer.say("end");
            long slowest = Long.parseLong(writer.expectLine());
            int steps = Integer.parseInt(writer.expectLine());
            // A tenth of a second, and what the machine has others do meanwhile.
            assertTrue(
                    slowest < 5_000_000,
                    slowest + " us at most, of " + steps + " changes, in " + millis + " ms");
            assertEquals(0, writer.await());
            assertTrue(backup.bytes() > 80 << 20, "blocks that a change finds");
        }
        Path to = dir.resolve("to");
        Path data = Files.createDirectory(dir.resolve("data"));
        rig.backups().restore(backup.number(), to, KillWorkload.options(data));
        try (Pool pool = Pool.open(to, KillWorkload.options(data))) {
            List<Large> all = Large.all(pool);
            assertEquals(count, all.size());
            int last = all.stream().mapToInt(Large::number).max().orElse(0);
            int[] expected = new int[count];
            for (int step = 1; step <= last; step++) {
                expected[Large.changed(step, count)] = step;
            }
            for (int i = 0; i < count; i++) {
                assertEquals(expected[i], all.get(i).number(), "object " + i + " at step " + last);
            }
        }
    }

    private static MemorySegment words(Path pool, Arena arena) throws IOException {
        return Watch.map(pool, Superblock.BYTES, arena).asSlice(Superblock.WATCH_AT, Watch.BYTES);
    }

    private static long word(MemorySegment words, long at) {
        return words.get(Region.LONG, at);
    }

    private static void ask(MemorySegment words, long request) {
        words.set(Region.LONG, Watch.REQUEST_AT, request);
        words.set(Region.LONG, Watch.CALLS_AT, word(words, Watch.CALLS_AT) + 1);
    }

    private static byte[] marks() {
        ByteBuffer marks =
                ByteBuffer.allocate(Watch.FRONT_BYTES + Watch.FILES * 1024)
                        .order(ByteOrder.LITTLE_ENDIAN);
        for (int i = 0; i < Watch.FILES; i++) {
            marks.putLong(10);
        }
        return marks.array();
    }

    @Test
    void aWriterMarksOnlyInAFileOfThePoolsOwner() throws Exception {
        Path file = rig.place().resolve("pool");
        try (Arena arena = Arena.ofShared();
                Pool pool = rig.open()) {
            KillWorkload workload = new KillWorkload(pool);
            MemorySegment words = words(file, arena);
            Path foreign = dir.resolve("foreign");
            byte[] untouched = marks();
            Files.write(foreign, untouched);
            List<String> kinds =
                    List.of("link", "directory", "fifo", "other", "short", "long", "right");
            for (int i = 0; i < kinds.size(); i++) {
                Path made = Watch.marksOf(file, i + 1);
                switch (kinds.get(i)) {
                    case "link" -> Files.createSymbolicLink(made, foreign);
                    case "directory" -> Files.createDirectory(made);
                    case "fifo" -> assertEquals("", Tmpfs.run("mkfifo", made.toString()));
                    case "other" -> {
                        Files.write(made, untouched);
                        if (BackupUsersTest.isRoot()) {
                            Files.setAttribute(made, "unix:uid", 65_534);
                        } else {
                            Files.delete(made);
                        }
                    }
                    case "short" -> Files.write(made, Arrays.copyOf(untouched, 5000));
                    case "long" -> {
                        byte[] wrong = untouched.clone();
                        wrong[0] = 40;
                        Files.write(made, wrong);
                    }
                    default -> Files.write(made, untouched);
                }
                ask(words, i + 1);
                workload.step(i + 1);
                // A value on the disk that covers 12 blocks at least.
                pool.root("filler", KillWorkload.Cell.TYPE).get().fill(800_000);
                boolean isRight = kinds.get(i).equals("right");
                long session = word(words, Watch.SESSION_AT);
                assertEquals(isRight ? i + 1 : 0, Watch.requestOf(session), kinds.get(i));
                if (Files.isRegularFile(made)) {
                    byte[] found = Files.readAllBytes(made);
                    byte[] marked = Arrays.copyOfRange(found, 4096, found.length);
                    assertEquals(isRight, !Arrays.equals(marked, new byte[marked.length]));
                    int onDisk = 0;
                    for (int at = 1024; isRight && at < 2048; at++) {
                        onDisk += marked[at];
                    }
                    assertTrue(!isRight || onDisk >= 12, onDisk + " marks");
                }
            }
            assertEquals(
                    word(words, Watch.TOLD_AT),
                    Watch.map(file, Superblock.BYTES, arena)
                            .get(Region.LONG, Superblock.SEQUENCE_AT));
            assertTrue(Arrays.equals(untouched, Files.readAllBytes(foreign)));
            // The next backup removes what it can, and does without marks if it cannot.
            assertEquals(kinds.size(), rig.verify(rig.add(PATIENCE, false).number()));
        }
    }

    /// The next writer may have completed a commit of the last one, which nobody has marked.
    @Test
    void eachWriterBeginsASessionOfItsOwn() throws Exception {
        Path file = rig.place().resolve("pool");
        try (Arena arena = Arena.ofShared()) {
            MemorySegment words = words(file, arena);
            Files.write(Watch.marksOf(file, 7), marks());
            ask(words, 7);
            long last = 0;
            for (int i = 1; i <= 3; i++) {
                try (Pool pool = rig.open()) {
                    new KillWorkload(pool).step(i);
                    long session = word(words, Watch.SESSION_AT);
                    assertEquals(7, Watch.requestOf(session));
                    assertTrue(session != last, "session " + session);
                    last = session;
                }
            }
        }
    }

    @Test
    void wordsOfACopiedPoolMeanNothing() throws Exception {
        Path copy = Files.createDirectory(dir.resolve("copy"));
        Path data = Files.createDirectory(dir.resolve("copy-disk"));
        try (Arena arena = Arena.ofShared();
                Pool pool = rig.open()) {
            MemorySegment words = words(rig.place().resolve("pool"), arena);
            Path marks = Watch.marksOf(rig.place().resolve("pool"), 77);
            Files.write(marks, marks());
            ask(words, 77);
            new KillWorkload(pool).step(1);
            assertEquals(77, Watch.requestOf(word(words, Watch.SESSION_AT)));
            words.set(Region.LONG, Watch.PAUSE_AT, 78);
            Files.copy(rig.place().resolve("pool"), copy.resolve("pool"));
            Files.copy(rig.disk().resolve("disk-0"), data.resolve("disk-0"));
            words.set(Region.LONG, Watch.PAUSE_AT, 0);
            byte[] before = Files.readAllBytes(marks);
            try (Pool other = Pool.open(copy, KillWorkload.options(data))) {
                long begin = System.nanoTime();
                new KillWorkload(other).step(2);
                new KillWorkload(other).step(3);
                assertTrue(System.nanoTime() - begin < Duration.ofSeconds(5).toNanos());
                Backup backup = Backups.in(dir.resolve("others")).add(other);
                assertEquals(1, backup.number());
            }
            assertTrue(Arrays.equals(before, Files.readAllBytes(marks)), "the copy's are its own");
            // Who has asked for a pause is dead.
            words.set(Region.LONG, Watch.PAUSE_AT, 79);
            words.set(Region.LONG, Watch.CALLS_AT, word(words, Watch.CALLS_AT) + 1);
            long begin = System.nanoTime();
            new KillWorkload(pool).step(2);
            long waited = System.nanoTime() - begin;
            assertEquals(79, word(words, Watch.PAUSED_AT));
            assertTrue(waited >= Watch.PAUSE_NANOS_MAX, waited + " ns");
            assertTrue(waited < Duration.ofSeconds(5).toNanos(), waited + " ns");
        }
    }

    @Test
    void aPoolWithoutRoomForMarks() throws Exception {
        try (Tmpfs device = new Tmpfs(dir.resolve("small"), "8m")) {
            Path data = Files.createDirectory(dir.resolve("small-disk"));
            Path file = device.at().resolve("ballast");
            try (Pool pool = Pool.open(device.at(), KillWorkload.options(data))) {
                new KillWorkload(pool).prepare();
                assertThrows(IOException.class, () -> Files.write(file, new byte[16 << 20]));
                new KillWorkload(pool).step(1);
                Backup backup = rig.backups().add(pool, false);
                assertEquals(1, rig.verify(backup.number()));
                try (Stream<Path> files = Files.list(device.at())) {
                    assertFalse(files.anyMatch(each -> each.toString().contains("watch-")));
                }
            }
        }
    }
}
