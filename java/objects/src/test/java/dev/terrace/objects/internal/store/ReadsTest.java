package dev.terrace.objects.internal.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/// Consistent reads beside a word that is a commit of its own, and takes its time to become
/// durable.
class ReadsTest {
    private static final int SHIFT = 20;
    private static final Superblock SUPERBLOCK = new Superblock(new UUID(1, 2), 3, SHIFT, 1 << 16);

    /// A region whose device waits for somebody before it has flushed a word.
    private static final class Slow extends OneExtentRegion {
        private final CountDownLatch isStored = new CountDownLatch(1);
        private final CountDownLatch mayFlush = new CountDownLatch(1);
        private boolean isSlow;

        Slow(Arena arena) {
            super("slow", SHIFT, arena);
        }

        @Override
        public void flush(long offset, long length) {
            super.flush(offset, length);
            if (isSlow && length == Long.BYTES) {
                isSlow = false;
                isStored.countDown();
                await(mayFlush);
            }
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            throw new AssertionError(e);
        }
    }

    @Test
    void twoLooksAtAWordSeeTheSame() throws Exception {
        try (Arena arena = Arena.ofShared();
                ExecutorService other = Executors.newSingleThreadExecutor()) {
            Slow region = new Slow(arena);
            SUPERBLOCK.format(region);
            Store store = new Store(SUPERBLOCK, region, List.of(), null, false);
            long record = store.transact(() -> store.allocate(32, 7));
            long header = store.word(record);
            CountDownLatch hasLooked = new CountDownLatch(1);
            region.isSlow = true;
            Future<?> writer =
                    other.submit(() -> {
                        await(hasLooked);
                        store.putBits(record, header, record + 16, -1, 7);
                    });
            List<Long> first = new ArrayList<>();
            List<Long> seen =
                    store.read(() -> {
                        long before = store.word(record + 16);
                        first.add(before);
                        hasLooked.countDown();
                        await(region.isStored);
                        return List.of(before, store.word(record + 16));
                    });
            assertEquals(
                    List.of(0L, 7L), first, "it was read again while the word was not durable yet");
            assertEquals(List.of(7L, 7L), seen);
            region.mayFlush.countDown();
            writer.get();
            assertTrue(store.sequence() > 0);
        }
    }
}
