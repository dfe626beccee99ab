package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/// Threads, and readers like those of other processes, beside a writer that makes, changes and
/// deletes objects in columns, while their pool is compacted, retagged and checked.
///
/// Each value tells the object that it is of, and at which commit it was written. So a value of a
/// neighbor, of another object in the same place, or of no commit, is recognized.
@Timeout(120)
class ColumnarReadersTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);
    private static final int OBJECTS = 150;
    private static final int ROUNDS = Boolean.getBoolean("terrace.long") ? 100_000 : 400;
    private static final int IDS = 100;

    private static final FieldSpec[] FIELDS = {
        FieldSpec.of("id", FieldKind.BYTE),
        FieldSpec.of("number", FieldKind.INT),
        FieldSpec.of("small", FieldKind.SHORT),
        FieldSpec.of("flag", FieldKind.BOOLEAN),
        FieldSpec.of("pair", FieldKind.SHORTS).ofLength(2),
        FieldSpec.of("row", FieldKind.LONGS).ofLength(3),
        FieldSpec.of("text", FieldKind.STRING).orNull(),
        FieldSpec.of("maybe", FieldKind.INT).orNull()
    };

    private static final ObjectType<DurableRecord> TYPE = ObjectType.of("Tick", FIELDS).inColumns();

    /// The class, as another build has it: with a wider number. What it writes, it extends.
    private static final ObjectType<DurableRecord> WIDER =
            ObjectType.of(
                            "Tick",
                            Stream.of(FIELDS)
                                    .map(field ->
                                            field.name().equals("number")
                                                    ? FieldSpec.of("number", FieldKind.LONG)
                                                    : field)
                                    .toArray(FieldSpec[]::new))
                    .inColumns();

    @TempDir(factory = InMemory.class)
    Path dir;

    private final AtomicBoolean done = new AtomicBoolean();

    /// The object of each reference that ever was.
    private final Map<Long, Integer> ids = new ConcurrentHashMap<>();

    private static void write(DurableRecord tick, int id, int round) {
        tick.setByte(0, (byte) id);
        tick.setInt(1, round * IDS + id);
        tick.setShort(2, (short) (round % 300 * IDS + id));
        tick.setBoolean(3, id % 2 == 0);
        tick.setArray(4, new short[] {(short) (round + id), (short) (round + id)});
        tick.setArray(5, new long[] {round, id, round});
        tick.setString(6, ("text " + id + " of " + round + " ").repeat(1 + id % 5));
        tick.setBoxed(7, round % 2 == 0 ? null : round);
    }

    /// A change of two neighbors in one word of a column, and of nothing else.
    private void changeTogether(Pool pool, List<DurableRecord> ticks, Random random) {
        pool.transact(() -> {
            int at = random.nextInt(ticks.size() - 1);
            for (DurableRecord tick : ticks.subList(at, at + 2)) {
                tick.setBoolean(3, tick.getByte(0) % 2 == 0);
            }
        });
    }

    private void write(Pool pool) {
        Random random = new Random(1);
        List<DurableRecord> ticks = new ArrayList<>();
        for (int round = 1; round <= ROUNDS && !done.get(); round++) {
            int now = round;
            pool.transact(() -> {
                for (int i = random.nextInt(20); i > 0 && ticks.size() > 20; i--) {
                    ticks.remove(random.nextInt(ticks.size())).delete();
                }
                while (ticks.size() < OBJECTS - random.nextInt(20)) {
                    DurableRecord tick = pool.create(TYPE);
                    int id = random.nextInt(IDS);
                    ids.put(tick.reference(), id);
                    write(tick, id, 0);
                    ticks.add(tick);
                }
                ticks.forEach(tick -> write(tick, ids.get(tick.reference()), now));
            });
            rollBack(pool, ticks, random);
            changeTogether(pool, ticks, random);
        }
    }

    private static void rollBack(Pool pool, List<DurableRecord> ticks, Random random) {
        try {
            pool.transact(() -> {
                for (int i = 0; i < 3; i++) {
                    write(pool.create(TYPE), IDS, 12_345);
                    write(ticks.get(random.nextInt(ticks.size())), IDS, 12_345);
                }
                throw new UnsupportedOperationException("on purpose");
            });
        } catch (UnsupportedOperationException expected) {
            // Nobody sees what it wrote.
        }
    }

    /// All values, in one consistent read.
    private boolean lookAtAll(Pool pool, ObjectType<DurableRecord> type) {
        boolean isWide = type == WIDER;
        return pool.read(() -> {
            long round = -1;
            for (Cursor<DurableRecord> each = pool.cursor(type); each.next(); ) {
                DurableRecord tick = each.get();
                int id = tick.getByte(0);
                long number = isWide ? tick.getLong(1) : tick.getInt(1);
                round = round < 0 ? number / IDS : round;
                long[] row = (long[]) tick.getArray(5);
                short[] pair = (short[]) tick.getArray(4);
                boolean isSound =
                        ids.get(tick.reference()) == id
                                && number == round * IDS + id
                                && tick.getShort(2) == (short) (round % 300 * IDS + id)
                                && tick.getBoolean(3) == (id % 2 == 0)
                                && row[0] == round
                                && row[1] == id
                                && row[2] == round
                                && pair[0] == (short) (round + id)
                                && pair[1] == pair[0]
                                && tick.equalsString(
                                        6, ("text " + id + " of " + round + " ").repeat(1 + id % 5))
                                && (round % 2 == 0
                                        ? tick.getBoxed(7) == null
                                        : tick.getBoxed(7).equals((int) round));
                if (!isSound) {
                    throw new IllegalStateException(id + " at " + round + ": " + tick);
                }
            }
            return round >= 0;
        });
    }

    /// Each value alone: of its object, whenever it was written.
    private boolean lookAlone(Pool pool) {
        boolean met = false;
        for (Cursor<DurableRecord> each = pool.cursor(TYPE); each.next(); ) {
            DurableRecord tick = each.get();
            try {
                int id = ids.get(tick.reference());
                assertEquals(id, tick.getByte(0));
                assertEquals(id, tick.getInt(1) % IDS);
                assertEquals(id, tick.getShort(2) % IDS);
                assertEquals(id % 2 == 0, tick.getBoolean(3));
                long[] row = (long[]) tick.getArray(5);
                assertEquals(row[0], row[2]);
                assertEquals(id, row[1]);
                short[] pair = (short[]) tick.getArray(4);
                assertEquals(pair[0], pair[1]);
                String text = tick.getString(6);
                assertTrue(text.startsWith("text " + id + " of "), text);
                met = true;
            } catch (StaleReferenceException gone) {
                // A generation tells it from the next object in its place.
            }
        }
        return met;
    }

    /// Columns of batches.
    private boolean lookAtBatches(Pool pool) {
        boolean met = false;
        byte[] own = new byte[Cursor.BATCH_MAX];
        int[] numbers = new int[Cursor.BATCH_MAX];
        boolean[] flags = new boolean[Cursor.BATCH_MAX];
        long[] rows = new long[3 * Cursor.BATCH_MAX];
        Cursor<DurableRecord> each = pool.cursor(TYPE);
        for (int count = each.nextBatch(); count > 0; count = each.nextBatch()) {
            try {
                each.copyBytes(0, own, 0);
                each.copyInts(1, numbers, 0);
                each.copyBooleans(3, flags, 0);
                each.copyLongs(5, rows, 0);
            } catch (StaleReferenceException gone) {
                continue;
            }
            for (int i = 0; i < count; i++) {
                int id = ids.get(each.reference(i));
                assertEquals(id, own[i]);
                assertEquals(id, numbers[i] % IDS);
                assertEquals(numbers[0] / IDS, numbers[i] / IDS);
                assertEquals(id % 2 == 0, flags[i]);
                assertEquals(id, rows[3 * i + 1]);
                assertEquals(rows[0], rows[3 * i]);
                assertEquals(rows[0], rows[3 * i + 2]);
            }
            met = true;
        }
        return met;
    }

    private Future<Integer> start(ExecutorService threads, Callable<Boolean> look) {
        return threads.submit(() -> {
            try {
                int times = 0;
                while (!done.get()) {
                    times += look.call() ? 1 : 0;
                }
                return times;
            } finally {
                done.set(true);
            }
        });
    }

    private static boolean compact(Pool pool) {
        pool.compact();
        pool.retier(TYPE);
        assertEquals(List.of(), pool.check().problems());
        return true;
    }

    private void look(Pool pool, Pool reader, List<Callable<Boolean>> looks) throws Exception {
        try (ExecutorService threads = Executors.newCachedThreadPool()) {
            List<Future<Integer>> all = new ArrayList<>();
            try {
                looks.forEach(each -> all.add(start(threads, each)));
                write(pool);
            } finally {
                done.set(true);
            }
            for (Future<Integer> each : all) {
                assertTrue(each.get() > 0);
            }
        }
        for (Pool each : List.of(pool, reader)) {
            assertTrue(lookAtAll(each, TYPE) && lookAlone(each) && lookAtBatches(each));
        }
        assertEquals(List.of(), pool.check().problems());
    }

    @Test
    void noValueIsTornOrOfAnotherObject() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL);
                Pool reader = Pool.open(dir, SMALL.toRead())) {
            look(
                    pool,
                    reader,
                    List.of(
                            () -> lookAtAll(pool, TYPE),
                            () -> lookAlone(pool),
                            () -> lookAtBatches(pool),
                            () -> lookAlone(reader),
                            () -> lookAtBatches(reader)));
        }
    }

    @Test
    void noValueIsTornWhileThePoolIsKeptInOrder() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL);
                Pool reader = Pool.open(dir, SMALL.toRead())) {
            look(
                    pool,
                    reader,
                    List.of(
                            () -> lookAtAll(pool, TYPE),
                            () -> compact(pool),
                            () -> lookAlone(reader)));
        }
    }

    /// Another build of the class reads, and has all objects extended afterwards; then the pool is
    /// sealed.
    @Test
    void anotherBuildLooksOnAndThePoolIsSealed() throws Exception {
        try (Pool pool = Pool.open(dir, SMALL);
                Pool reader = Pool.open(dir, SMALL.toRead())) {
            look(pool, reader, List.of(() -> lookAtAll(pool, TYPE), () -> lookAtAll(pool, WIDER)));
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            pool.transact(() -> {
                for (Cursor<DurableRecord> each = pool.cursor(WIDER); each.next(); ) {
                    each.get().setLong(1, each.get().getLong(1));
                }
            });
            assertTrue(lookAtAll(pool, WIDER));
            assertEquals(List.of(), pool.check().problems());
            pool.seal();
        }
        try (Pool reader = Pool.open(dir, SMALL.toRead())) {
            assertTrue(lookAtAll(reader, WIDER));
            assertEquals(List.of(), reader.check().problems());
        }
    }
}
