package dev.terrace.objects.arrow;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.ChildJvm;
import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.InMemory;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolBusyException;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// An export beside a program that writes: it sees of each batch one commit, and of an export one
/// if that is wanted.
class ConsistencyTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final ObjectType<DurableRecord> ROWS =
            ObjectType.of(
                    "Row",
                    FieldSpec.of("round", FieldKind.INT),
                    FieldSpec.of("minus", FieldKind.LONG),
                    FieldSpec.of("text", FieldKind.STRING).orNull(),
                    FieldSpec.of("far", FieldKind.STRING).on(StorageTier.DISK).orNull());
    private static final ObjectType<DurableRecord> COLUMNS = ROWS.inColumns();
    private static final int OBJECTS = 300;
    private static final int BATCH = 70;
    private static final int EXPORTS = 40;

    @TempDir(factory = InMemory.class)
    private Path dir;

    private static ObjectType<DurableRecord> type(boolean inColumns) {
        return inColumns ? COLUMNS : ROWS;
    }

    private static List<DurableRecord> make(Pool pool, ObjectType<DurableRecord> type) {
        List<DurableRecord> objects = new ArrayList<>();
        pool.transact(() -> {
            for (int i = 0; i < OBJECTS; i++) {
                objects.add(pool.create(type));
            }
            set(objects, 0);
        });
        return objects;
    }

    private static void set(List<DurableRecord> objects, int round) {
        for (DurableRecord object : objects) {
            object.setInt(0, round);
            object.setLong(1, -round);
            object.setString(2, "text of round " + round);
            object.setString(3, "far text of round " + round);
        }
    }

    /// All rows are of one round, which is returned.
    private static int round(List<Map<String, Object>> rows) {
        int round = (Integer) rows.getFirst().get("round");
        for (Map<String, Object> row : rows) {
            assertEquals(round, row.get("round"));
            assertEquals((long) -round, row.get("minus"));
            assertEquals("text of round " + round, row.get("text"));
            assertEquals("far text of round " + round, row.get("far"));
        }
        return round;
    }

    /// Exports while others write, and requires that batches are of one commit each; with
    /// `ONE_COMMIT`, all of them of the same.
    private void export(ArrowExport export) throws IOException {
        Path file = dir.resolve("out");
        Set<Integer> rounds = new HashSet<>();
        for (int i = 0; i < EXPORTS; i++) {
            export.save(file, ArrowFormat.FILE, SaveOption.REPLACE);
            Read found = Read.file(file);
            assertEquals(OBJECTS, found.rows().size());
            found.batches().forEach(batch -> rounds.add(round(batch)));
            export.save(file, ArrowFormat.FILE, SaveOption.REPLACE, SaveOption.ONE_COMMIT);
            rounds.add(round(Read.file(file).rows()));
        }
        assertTrue(rounds.size() > 3, () -> "somebody writes: " + rounds);
    }

    /// A thread of this process that writes.
    private static Thread writing(AtomicBoolean isOver, Runnable round) {
        return Thread.ofPlatform()
                .start(() -> {
                    while (!isOver.get()) {
                        round.run();
                    }
                });
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void besideAThreadThatWrites(boolean inColumns) throws Exception {
        try (Pool pool = Pool.open(dir.resolve("pool"), SMALL)) {
            List<DurableRecord> objects = make(pool, type(inColumns));
            AtomicBoolean isOver = new AtomicBoolean();
            int[] round = {0};
            Thread writer = writing(isOver, () -> pool.transact(() -> set(objects, ++round[0])));
            try {
                export(ArrowExport.of(pool, type(inColumns)).batches(BATCH));
            } finally {
                isOver.set(true);
                writer.join();
            }
        }
    }

    /// Writes in a process of its own, until that is killed, with a pause after each round.
    static final class Writing {
        private static final int PAUSE_MILLIS = 30;

        private Writing() {}

        public static void main(String[] arguments) throws Exception {
            try (Pool pool = Pool.open(Path.of(arguments[0]), SMALL)) {
                List<DurableRecord> objects = make(pool, type(Boolean.parseBoolean(arguments[1])));
                System.out.println("ready");
                for (int round = 1; ; round++) {
                    int its = round;
                    pool.transact(() -> set(objects, its));
                    Thread.sleep(PAUSE_MILLIS);
                }
            }
        }
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void besideAProcessThatWrites(boolean inColumns) throws Exception {
        Path place = Files.createDirectory(dir.resolve("pool"));
        try (ChildJvm writer = new ChildJvm(Writing.class, place, inColumns)) {
            assertEquals("ready", writer.expectLine());
            try (Pool pool = Pool.open(place, SMALL.toRead())) {
                export(ArrowExport.of(pool, "Row").batches(BATCH));
            }
            writer.kill();
            try (Pool pool = Pool.open(place, SMALL.toRead())) {
                round(Read.export(ArrowExport.of(pool, "Row")).rows());
            }
        }
    }

    /// A channel: at each write to it, somebody commits.
    private record Moving(Pool writer, DurableRecord object) implements WritableByteChannel {
        @Override
        public int write(ByteBuffer bytes) {
            int length = bytes.remaining();
            bytes.position(bytes.limit());
            writer.transact(() -> {
                object.setInt(0, object.getInt(0) + 1);
                object.setLong(1, object.getLong(1) - 1);
            });
            return length;
        }

        @Override
        public boolean isOpen() {
            return true;
        }

        @Override
        public void close() {}
    }

    @Test
    void aReaderThatNeverSeesOneCommitSaysSo() throws IOException {
        Path place = dir.resolve("pool");
        PoolOptions options = SMALL.toRead().patience(Duration.ofMillis(300));
        try (Pool writer = Pool.open(place, SMALL)) {
            Moving moving = new Moving(writer, make(writer, ROWS).getFirst());
            try (Pool reader = Pool.open(place, options)) {
                ArrowExport export = ArrowExport.of(reader, ROWS).batches(BATCH);
                assertEquals(OBJECTS, export.write(moving, ArrowFormat.FILE));
                assertThrows(
                        PoolBusyException.class,
                        () ->
                                reader.readAlone(() -> {
                                    try {
                                        return export.write(moving, ArrowFormat.FILE);
                                    } catch (IOException e) {
                                        throw new AssertionError(e);
                                    }
                                }));
            }
        }
    }

    /// Objects that come and go do not hide others, and none is there twice.
    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void objectsThatStayAreThereOnce(boolean inColumns) throws Exception {
        try (Pool pool = Pool.open(dir.resolve("pool"), SMALL)) {
            ObjectType<DurableRecord> type = type(inColumns);
            List<DurableRecord> staying = make(pool, type);
            List<DurableRecord> others = new ArrayList<>(make(pool, type));
            Set<Long> wanted =
                    staying.stream().map(DurableRecord::reference).collect(Collectors.toSet());
            Random random = new Random(1);
            AtomicBoolean isOver = new AtomicBoolean();
            Thread writer =
                    writing(
                            isOver,
                            () ->
                                    pool.transact(() -> {
                                        others.remove(random.nextInt(others.size())).delete();
                                        others.add(pool.create(type));
                                    }));
            try {
                for (int i = 0; i < EXPORTS; i++) {
                    Read found = Read.export(ArrowExport.of(pool, type).batches(BATCH));
                    List<Object> ids = found.column(Columns.ID);
                    assertEquals(ids.size(), Set.copyOf(ids).size(), "none is there twice");
                    assertTrue(ids.containsAll(wanted), "all that stay are there");
                }
            } finally {
                isOver.set(true);
                writer.join();
            }
        }
    }

    @Test
    void inAConsistentReadAllBatchesAreOfOneCommit() throws Exception {
        try (Pool pool = Pool.open(dir.resolve("pool"), SMALL)) {
            List<DurableRecord> objects = make(pool, ROWS);
            AtomicBoolean isOver = new AtomicBoolean();
            int[] round = {0};
            Thread writer = writing(isOver, () -> pool.transact(() -> set(objects, ++round[0])));
            try {
                ArrowExport export = ArrowExport.of(pool, ROWS).batches(BATCH);
                for (int i = 0; i < 5; i++) {
                    Read found =
                            pool.readAlone(() -> {
                                try {
                                    return Read.export(export);
                                } catch (IOException e) {
                                    throw new AssertionError(e);
                                }
                            });
                    assertEquals(OBJECTS, found.rows().size());
                    round(found.rows());
                }
            } finally {
                isOver.set(true);
                writer.join();
            }
        }
    }
}
