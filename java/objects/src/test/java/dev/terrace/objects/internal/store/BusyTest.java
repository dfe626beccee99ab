package dev.terrace.objects.internal.store;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.foreign.Arena;
import java.time.Duration;
import java.util.List;
import java.util.UUID;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Reads beside a writer that never pauses.
class BusyTest {
    private static final int SHIFT = 20;
    private static final long SLOT_AT = 1 << 19;
    private static final Superblock SUPERBLOCK = new Superblock(new UUID(1, 2), 3, SHIFT, 1 << 16);

    /// A region of one extent; something is done whenever somebody looks for another.
    private static final class Restless extends OneExtentRegion {
        private Runnable onFollow = () -> {};
        private int follows;

        Restless(Arena arena) {
            super("restless", SHIFT, arena);
        }

        @Override
        protected boolean follow(long index) {
            follows++;
            onFollow.run();
            return false;
        }

        /// Another commit.
        void commit() {
            putLong(Superblock.SEQUENCE_AT, getLong(Superblock.SEQUENCE_AT) + 2);
        }
    }

    private static Restless region(Arena arena) {
        Restless region = new Restless(arena);
        SUPERBLOCK.format(region);
        return region;
    }

    private static Store open(Region region, boolean readOnly) {
        Store store = new Store(SUPERBLOCK, region, List.of(), null, readOnly);
        store.setPatience(Duration.ZERO);
        return store;
    }

    @Test
    void whoOnlyReadsGivesUpAndSaysWhy() {
        try (Arena arena = Arena.ofConfined()) {
            Restless region = region(arena);
            Store store = open(region, true);
            int[] attempts = {0};
            StoreFailure.Busy busy =
                    assertThrows(
                            StoreFailure.Busy.class,
                            () ->
                                    store.read(() -> {
                                        region.commit();
                                        return ++attempts[0];
                                    }));
            assertTrue(
                    busy.getMessage()
                            .startsWith("restless: another process has committed so often"),
                    busy.getMessage());
            assertEquals(4, attempts[0]);
            assertEquals(5, store.read(() -> ++attempts[0]), "a writer that pauses is waited for");
        }
    }

    static Stream<Duration> largePatiences() {
        return Stream.of(
                Duration.ofDays(1),
                Duration.ofNanos(Long.MAX_VALUE),
                Duration.ofSeconds(Long.MAX_VALUE));
    }

    @ParameterizedTest
    @MethodSource("largePatiences")
    void whoOnlyReadsWaitsAsLongAsItWasTold(Duration patience) {
        try (Arena arena = Arena.ofConfined()) {
            Restless region = region(arena);
            Store store = open(region, true);
            store.setPatience(patience);
            int[] attempts = {0};
            assertEquals(
                    100_000,
                    store.read(() -> {
                        if (++attempts[0] < 100_000) {
                            region.commit();
                        }
                        return attempts[0];
                    }));
        }
    }

    /// A commit that is always on its way, in a log that is never whole.
    @Test
    void whoOnlyReadsGivesUpOnLogs() {
        try (Arena arena = Arena.ofConfined()) {
            Restless region = region(arena);
            Store store = open(region, true);
            region.putLong(Superblock.SEQUENCE_AT, 1);
            region.putLong(Superblock.LOG_AT, 1);
            // Its words are where nobody has been: to look for them takes until the next commit.
            region.putLong(Superblock.LOG_AT + 16, 1L << SHIFT + 4);
            region.onFollow =
                    () -> {
                        region.commit();
                        region.putLong(Superblock.LOG_AT, store.sequence());
                    };
            assertThrows(StoreFailure.Busy.class, () -> store.read(store::sequence));
            assertEquals(4, region.follows);
        }
    }

    @Test
    void whoWritesKeepsOthersFromCommitting() {
        try (Arena arena = Arena.ofConfined()) {
            Restless region = region(arena);
            Store store = open(region, false);
            int[] attempts = {0};
            assertEquals(
                    65,
                    store.read(() -> {
                        region.commit();
                        return ++attempts[0];
                    }),
                    "64 attempts, and one that has the writer's lock");
        }
    }

    /// A slot that leads to another place each time somebody looks there.
    @Test
    void aBufferThatIsReplacedAllTheTimeIsNotReadForEver() {
        try (Arena arena = Arena.ofConfined()) {
            Restless region = region(arena);
            region.putLong(SLOT_AT, slot(1));
            region.onFollow = () -> region.putLong(SLOT_AT, slot(region.follows + 1));
            Buffers reader = new Buffers(open(region, true));
            assertThrows(StoreFailure.Busy.class, () -> reader.get(SLOT_AT));
            assertEquals(4, region.follows);
            region.follows = 0;
            Buffers writer = new Buffers(open(region, false));
            assertThrows(StoreFailure.Damaged.class, () -> writer.get(SLOT_AT));
            assertEquals(65, region.follows, "64 attempts, and one that has the writer's lock");
        }
    }

    /// A slot that leads behind the region's end.
    private static long slot(int nonce) {
        return 2 | (long) nonce << 8 | (1L << SHIFT + 1) / 16 << 24;
    }
}
