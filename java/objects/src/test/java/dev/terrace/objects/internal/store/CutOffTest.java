package dev.terrace.objects.internal.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import dev.terrace.objects.InMemory;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.internal.collections.Heap;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A file of a disk gets shorter while somebody reads what lay at its end.
class CutOffTest {
    private static final int EXTENT_BYTES = 1 << 20;
    private static final int SLOT_AT = 16;

    @TempDir(factory = InMemory.class)
    Path dir;

    /// Makes something with a slot that leads to the disk, and returns where.
    private static long make(Pool pool) {
        Store store = Heap.of(pool).store();
        return store.transact(() -> {
            long record = store.allocate(SizeClasses.SLOT_BYTES_MIN, Headers.BUFFER);
            store.putWord(
                    record,
                    record + SLOT_AT,
                    Heap.of(pool).buffers().put(List.of(Medium.DISK), new byte[100]));
            return record;
        });
    }

    /// Has the slot lead elsewhere, and the disk end.
    private static void cutOff(Pool pool, long record) {
        Store store = Heap.of(pool).store();
        long old = store.word(record + SLOT_AT);
        store.transact(() -> {
            store.putWord(
                    record,
                    record + SLOT_AT,
                    Heap.of(pool).buffers().put(List.of(Medium.PMEM), new byte[] {1}));
            Heap.of(pool).buffers().free(old);
            return true;
        });
        assertEquals(EXTENT_BYTES, store.compaction().giveBack());
    }

    @Test
    void whoLooksWhereNothingIsAnyMoreReadsAgain() throws IOException {
        try (Pool pool = Pool.open(dir, PoolOptions.defaults().extents(EXTENT_BYTES))) {
            long record = make(pool);
            // Another process has it mapped still.
            MemorySegment extent = Heap.of(pool).store().disk(0).extent(0);
            AtomicInteger tries = new AtomicInteger();
            long length =
                    Heap.of(pool)
                            .buffers()
                            .settled(
                                    record + SLOT_AT,
                                    slot -> {
                                        if (tries.getAndIncrement() == 0) {
                                            cutOff(pool, record);
                                            return (int)
                                                    extent.get(
                                                            Region.LONG, SizeClasses.CHUNK_BYTES);
                                        }
                                        return 1;
                                    });
            assertEquals(List.of(2, 1L), List.of(tries.get(), length));
        }
    }

    @Test
    void aFileThatIsCutOffThoughSomethingLeadsThereIsDamaged() throws IOException {
        try (Pool pool = Pool.open(dir, PoolOptions.defaults().extents(EXTENT_BYTES))) {
            long record = make(pool);
            MemorySegment extent = Heap.of(pool).store().disk(0).extent(0);
            Heap.of(pool).store().disk(0).shrink(0);
            assertThrows(
                    InternalError.class,
                    () ->
                            Heap.of(pool)
                                    .buffers()
                                    .settled(
                                            record + SLOT_AT,
                                            slot ->
                                                    extent.get(
                                                            Region.LONG, SizeClasses.CHUNK_BYTES)));
        }
    }
}
