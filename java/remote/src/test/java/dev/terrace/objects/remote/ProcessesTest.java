package dev.terrace.objects.remote;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.ChildJvm;
import dev.terrace.objects.InMemory;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Thing;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A process that reads follows values whose segments another one deletes; and a process that was
/// killed while it wrote leaves what had returned, and no segments that nobody knows.
class ProcessesTest {
    private static final PoolOptions OPTIONS = PoolOptions.defaults().extents(1 << 20);
    private static final ObjectType<Thing> THING = Thing.on(StorageTier.REMOTE);
    private static final int ROUNDS = 60;
    private static final int KILLS = 5;

    @TempDir(factory = InMemory.class)
    Path dir;

    private static HadoopSegments segments(Path directory) throws IOException {
        return HadoopSegments.open(directory.resolve("segments").toUri());
    }

    private static byte[] bytes(int round) {
        byte[] bytes = new byte[1000 + round % 50];
        Arrays.fill(bytes, (byte) (round % 50));
        return bytes;
    }

    private static Thing thing(Pool pool, int number) {
        return Objects.requireNonNull(pool.root("thing " + number, THING).get());
    }

    private static void make(Pool pool) {
        pool.transact(() -> {
            for (int i = 0; i < 2; i++) {
                Thing thing = pool.create(THING);
                thing.setBytes(bytes(0));
                pool.root("thing " + i, THING).set(thing);
            }
        });
    }

    /// Whether these are the bytes of some round.
    private static boolean isWhole(byte[] bytes) {
        return Arrays.equals(bytes, bytes(bytes[0]));
    }

    /// Reads until it is told to end, and says how often.
    static final class Reader {
        public static void main(String[] arguments) throws IOException {
            Path directory = Path.of(arguments[0]);
            try (HadoopSegments segments = segments(directory);
                    Pool pool = Pool.open(directory, OPTIONS.remote(segments).toRead())) {
                System.out.println("open");
                int times = 0;
                do {
                    for (int i = 0; i < 2; i++) {
                        byte[] bytes = Objects.requireNonNull(thing(pool, i).getBytes());
                        if (!isWhole(bytes)) {
                            throw new IllegalStateException(
                                    "bytes of no round: " + Arrays.toString(bytes));
                        }
                    }
                    times++;
                } while (System.in.available() == 0);
                System.out.println("read " + times);
            }
        }
    }

    /// Writes round after round, and says which it has finished.
    static final class Writer {
        public static void main(String[] arguments) throws IOException {
            Path directory = Path.of(arguments[0]);
            try (HadoopSegments segments = segments(directory);
                    Pool pool = Pool.open(directory, OPTIONS.remote(segments))) {
                for (int round = Integer.parseInt(arguments[1]); ; round++) {
                    byte[] bytes = bytes(round);
                    pool.transact(() -> {
                        thing(pool, 0).setBytes(bytes);
                        thing(pool, 1).setBytes(bytes);
                    });
                    System.out.println(round);
                }
            }
        }
    }

    @Test
    void aReaderFollowsWhatMovesAndGoes() throws IOException, InterruptedException {
        try (HadoopSegments segments = segments(dir);
                Pool pool = Pool.open(dir, OPTIONS.remote(segments))) {
            make(pool);
            try (ChildJvm reader = new ChildJvm(Reader.class, dir)) {
                assertEquals("open", reader.expectLine());
                for (int round = 1; round <= ROUNDS; round++) {
                    thing(pool, round % 2).setBytes(bytes(round));
                    if (round % 3 == 0) {
                        pool.compact();
                    }
                }
                reader.say("end");
                String times = reader.expectLine();
                assertTrue(times.startsWith("read "), times);
                assertEquals(0, reader.await(), reader::errors);
            }
        }
    }

    @Test
    void whatAKilledWriterLeavesIsWhole() throws IOException {
        try (HadoopSegments segments = segments(dir);
                Pool pool = Pool.open(dir, OPTIONS.remote(segments))) {
            make(pool);
        }
        int round = 1;
        for (int kill = 0; kill < KILLS; kill++) {
            int done = 0;
            try (ChildJvm writer = new ChildJvm(Writer.class, dir, round)) {
                for (int i = 0; i < 3 + kill; i++) {
                    done = Integer.parseInt(writer.expectLine());
                }
                writer.kill();
                for (String line = writer.line(); line != null; line = writer.line()) {
                    done = Integer.parseInt(line);
                }
            }
            try (HadoopSegments segments = segments(dir);
                    Pool pool = Pool.open(dir, OPTIONS.remote(segments))) {
                byte[] found = Objects.requireNonNull(thing(pool, 0).getBytes());
                byte[] last = bytes(done);
                byte[] next = bytes(done + 1);
                assertTrue(
                        Arrays.equals(found, last) || Arrays.equals(found, next),
                        "of round " + done + ", or one more");
                assertTrue(Arrays.equals(found, thing(pool, 1).getBytes()), "both or neither");
                assertEquals(List.of(), pool.check().problems());
                long known = pool.statistics().capacity().getLast();
                assertEquals(known + 64, bytesThere(), "segments, and the label");
            }
            round = done + 2;
        }
    }

    private long bytesThere() throws IOException {
        long bytes = 0;
        try (Stream<Path> files = Files.list(dir.resolve("segments"))) {
            for (Path file : files.toList()) {
                bytes += Files.size(file);
            }
        }
        return bytes;
    }
}
