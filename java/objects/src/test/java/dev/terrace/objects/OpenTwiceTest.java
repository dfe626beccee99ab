package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.RecordingSegmentStore;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Opening a pool that is open in the process gives what the options say, or an exception that says
/// why not.
class OpenTwiceTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    @TempDir(factory = InMemory.class)
    Path dir;

    private static DurablePerson bob(Pool pool) {
        return Objects.requireNonNull(pool.root("bob", DurablePerson.class).get());
    }

    @Test
    void whoOpensToReadCannotWriteWhoeverElseDoes() throws IOException {
        Pool writer = Pool.open(dir, SMALL);
        DurablePerson bob = DurablePerson.create(writer);
        writer.root("bob", DurablePerson.class).set(bob);
        bob.setAge(1);
        try (Pool reader = Pool.open(dir, SMALL.toRead())) {
            assertNotSame(writer, reader);
            DurablePerson seen = bob(reader);
            assertNotEquals(bob, seen);
            assertThrows(PoolReadOnlyException.class, () -> seen.setAge(2));
            assertThrows(PoolReadOnlyException.class, () -> reader.transact(() -> {}));
            writer.transact(() -> {
                bob.setAge(3);
                assertEquals(1, seen.getAge());
            });
            assertEquals(3, seen.getAge());
            try (Pool again = Pool.open(dir, SMALL.toRead())) {
                assertSame(reader, again);
            }
            writer.close();
            assertThrows(PoolClosedException.class, bob::getAge);
            assertEquals(3, seen.getAge());
            try (Pool again = Pool.open(dir, SMALL)) {
                bob(again).setAge(4);
                assertEquals(4, seen.getAge());
            }
        }
    }

    @Test
    void otherOptionsThanTheOpenPoolsAreRefused() throws IOException {
        Path other = Files.createDirectory(dir.resolve("other"));
        Path place = dir.resolve("pool");
        PoolOptions options =
                SMALL.pmem(8 << 20).remote(new RecordingSegmentStore(new ArrayList<>()), 1 << 20);
        Map<String, PoolOptions> differing = new LinkedHashMap<>();
        differing.put("pmem was 8388608, and not 4194304", options.pmem(4 << 20));
        differing.put("disks was", options.disk(StorageTier.SSD, other));
        differing.put("disks was [Disk[tier=SSD", options.disk(StorageTier.HDD, place));
        differing.put("bytesMax=1000000]", options.disk(StorageTier.SSD, place, 1_000_000));
        differing.put(
                "remote was",
                options.remote(new RecordingSegmentStore(new ArrayList<>()), 2 << 20));
        differing.put("and not none", SMALL.pmem(8 << 20));
        differing.put("patience was PT10S, and not PT1S", options.patience(Duration.ofSeconds(1)));
        for (boolean isReader : new boolean[] {false, true}) {
            try (Pool pool = Pool.open(place, options);
                    Pool open = Pool.open(place, isReader ? options.toRead() : options)) {
                assertEquals(isReader, open != pool);
                differing.forEach((difference, wanted) -> {
                    PoolOptions each = isReader ? wanted.toRead() : wanted;
                    PoolLockedException e =
                            assertThrows(PoolLockedException.class, () -> Pool.open(place, each));
                    assertTrue(
                            e.getMessage().contains("is open in this process with other options: "),
                            e::getMessage);
                    assertTrue(e.getMessage().contains(difference), e::getMessage);
                });
                // What differs only in how it is said, or is for pools that are made, is the same.
                PoolOptions same =
                        options.disk(StorageTier.SSD, place.resolve("../pool"))
                                .extents(2 << 20)
                                .existing();
                try (Pool again = Pool.open(place, isReader ? same.toRead() : same)) {
                    assertSame(open, again);
                }
            }
        }
    }

    /// Checksums are of the pool, whoever has wanted them; who reads only writes none.
    @Test
    void whoWantsChecksumsGetsThemOrIsRefused() throws IOException {
        PoolOptions checked = SMALL.withPmemChecksums();
        try (Pool plain = Pool.open(dir, SMALL);
                Pool reader = Pool.open(dir, SMALL.toRead())) {
            PoolLockedException e =
                    assertThrows(PoolLockedException.class, () -> Pool.open(dir, checked));
            assertTrue(
                    e.getMessage()
                            .contains("with other options: pmemChecksums was false, and not true"),
                    e::getMessage);
            try (Pool again = Pool.open(dir, checked.toRead())) {
                assertSame(reader, again);
            }
            assertNotSame(plain, reader);
        }
        Pool.open(dir, checked).close();
        try (Pool kept = Pool.open(dir, SMALL);
                Pool again = Pool.open(dir, checked)) {
            assertSame(kept, again);
        }
    }
}
