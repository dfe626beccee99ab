package dev.terrace.objects.internal.store;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.GoldenPool;
import dev.terrace.objects.InMemory;
import dev.terrace.objects.Layout;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.TerraceException;
import dev.terrace.objects.Thing;
import dev.terrace.objects.internal.collections.Heap;
import java.io.IOException;
import java.lang.foreign.MemorySegment;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// What becomes of pools with features that a later library has given them.
class FeatureTest {
    private static final int BITS = 40;

    /// In the order of their words.
    private static final List<String> KINDS =
            List.of("compatible", "read-compatible", "incompatible");

    @TempDir(factory = InMemory.class)
    Path dir;

    /// Gives the pool a feature, as a library does that knows it.
    private PoolOptions giveFeature(long at, int number) throws IOException {
        PoolOptions options = GoldenPool.extract(GoldenPool.Kept.CHECKED_DISK, dir);
        ByteBuffer pool =
                ByteBuffer.wrap(Files.readAllBytes(dir.resolve("pool")))
                        .order(ByteOrder.LITTLE_ENDIAN);
        pool.putLong((int) at, withFeature(pool.getLong((int) at), at, number));
        Files.write(dir.resolve("pool"), pool.array());
        return options;
    }

    private static long withFeature(long word, long at, int number) {
        long bits = word & (1L << BITS) - 1 | 1L << number;
        CRC32C crc = new CRC32C();
        crc.update(
                ByteBuffer.allocate(16)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putLong(bits)
                        .putLong(at)
                        .flip());
        return bits | crc.getValue() << BITS;
    }

    @Test
    void aCompatibleOneIsIgnoredAndKept() throws IOException {
        PoolOptions options = giveFeature(Superblock.COMPATIBLE_AT, 7);
        byte[] words = words();
        Pool.open(dir, options.toRead()).close();
        try (Pool pool = Pool.open(dir, options)) {
            assertEquals(List.of(), pool.check().problems());
        }
        assertArrayEquals(words, words());
    }

    private byte[] words() throws IOException {
        int at = (int) Superblock.COMPATIBLE_AT;
        return Arrays.copyOfRange(Files.readAllBytes(dir.resolve("pool")), at, at + 3 * Long.BYTES);
    }

    @Test
    void aReadCompatibleOneIsReadAndNotWritten() throws IOException {
        PoolOptions options = giveFeature(Superblock.READ_COMPATIBLE_AT, 12);
        byte[] before = Files.readAllBytes(dir.resolve("pool"));
        String said = refusal(options);
        assertTrue(
                said.contains("read-compatible feature 12,") && said.contains("open it to read"),
                said);
        try (Pool pool = Pool.open(dir, options.toRead())) {
            assertEquals(6, pool.rootNames().size());
            assertEquals(List.of(), pool.check().problems());
        }
        assertArrayEquals(before, Files.readAllBytes(dir.resolve("pool")));
    }

    @Test
    void anIncompatibleOneIsRefused() throws IOException {
        PoolOptions options = giveFeature(Superblock.INCOMPATIBLE_AT, BITS - 1);
        byte[] before = Files.readAllBytes(dir.resolve("pool"));
        for (PoolOptions each : List.of(options, options.toRead(), options.existing())) {
            String said = refusal(each);
            assertTrue(
                    said.contains("incompatible feature 39,") && said.contains("newer library"),
                    said);
        }
        assertArrayEquals(before, Files.readAllBytes(dir.resolve("pool")));
    }

    private String refusal(PoolOptions options) {
        return String.valueOf(
                assertThrows(PoolFormatException.class, () -> Pool.open(dir, options))
                        .getMessage());
    }

    /// None of their bits can change alone, nor a word stand in another's place.
    @Test
    void aDamagedWordIsNoticed() throws IOException {
        PoolOptions options = GoldenPool.extract(GoldenPool.Kept.CHECKED_DISK, dir);
        byte[] sound = Files.readAllBytes(dir.resolve("pool"));
        for (long at = Superblock.COMPATIBLE_AT;
                at <= Superblock.INCOMPATIBLE_AT;
                at += Long.BYTES) {
            ByteBuffer page = ByteBuffer.wrap(sound.clone()).order(ByteOrder.LITTLE_ENDIAN);
            long word = page.getLong((int) at);
            String whose = KINDS.get((int) (at - Superblock.COMPATIBLE_AT) / Long.BYTES);
            String said = "pool: the word of its " + whose + " features is damaged";
            for (int bit = 0; bit < Long.SIZE; bit++) {
                expectDamaged(options, page.putLong((int) at, word ^ 1L << bit), said);
            }
            expectDamaged(options, page.putLong((int) at, 0), said);
            expectDamaged(options, page.putLong((int) at, -1), said);
            long other =
                    at == Superblock.COMPATIBLE_AT
                            ? Superblock.READ_COMPATIBLE_AT
                            : Superblock.COMPATIBLE_AT;
            expectDamaged(options, page.putLong((int) at, page.getLong((int) other)), said);
        }
    }

    private void expectDamaged(PoolOptions options, ByteBuffer page, String said)
            throws IOException {
        Files.write(dir.resolve("pool"), page.array());
        PoolDamagedException e =
                assertThrows(PoolDamagedException.class, () -> Pool.open(dir, options.toRead()));
        assertTrue(String.valueOf(e.getMessage()).endsWith(said), e::getMessage);
    }

    /// What a later library may give a pool that others read.
    private enum Later {
        VERSION("is a pool of version 5,") {
            @Override
            void give(Region pmem) {
                byte[] page = new byte[64];
                pmem.get(0, MemorySegment.ofArray(page), 0, page.length);
                ByteBuffer fields = ByteBuffer.wrap(page).order(ByteOrder.LITTLE_ENDIAN);
                fields.putInt(8, Superblock.VERSION + 1);
                CRC32C crc = new CRC32C();
                crc.update(page, 0, 56);
                pmem.putLong(8, fields.getLong(8));
                pmem.putLong(56, crc.getValue());
            }
        },
        INCOMPATIBLE("has the incompatible feature 20,") {
            @Override
            void give(Region pmem) {
                long at = Superblock.INCOMPATIBLE_AT;
                pmem.putLong(at, withFeature(pmem.getLong(at), at, 20));
            }
        },
        /// Readers need not know it: what they cannot read is damaged.
        READ_COMPATIBLE(" is no slot") {
            @Override
            void give(Region pmem) {
                long at = Superblock.READ_COMPATIBLE_AT;
                pmem.putLong(at, withFeature(pmem.getLong(at), at, 20));
            }
        };

        final String said;

        Later(String said) {
            this.said = said;
        }

        abstract void give(Region pmem);
    }

    @ParameterizedTest
    @EnumSource
    void whoReadsAlreadyWhenALaterLibraryComesIsToldSo(Later later) throws IOException {
        PoolOptions options = PoolOptions.defaults().extents(1 << 20);
        ObjectType<Thing> type = Thing.on(StorageTier.PMEM);
        try (Pool pool = Pool.open(dir, options);
                Pool reader = Pool.open(dir, options.toRead())) {
            Thing written = pool.create(type);
            pool.root("thing", type).set(written);
            written.setBytes(new byte[100]);
            Thing thing = Objects.requireNonNull(reader.root("thing", type).get());
            assertArrayEquals(new byte[100], thing.getBytes());
            Region pmem = Heap.of(pool).store().pmem();
            later.give(pmem);
            assertArrayEquals(new byte[100], thing.getBytes(), "nothing that is new");
            // A slot of a kind that there is not yet.
            long record = References.recordOf(thing.reference());
            pmem.putLong(record + Layout.of(type.fields()).offsets()[0], 0x1239);
            for (Executable read :
                    List.<Executable>of(
                            thing::getBytes,
                            thing::lengthOfBytes,
                            () -> reader.read(thing::getBytes),
                            () -> requireSound(reader))) {
                TerraceException e = assertThrows(TerraceException.class, read);
                assertEquals(
                        later == Later.READ_COMPATIBLE,
                        e instanceof PoolDamagedException,
                        e::getMessage);
                assertTrue(String.valueOf(e.getMessage()).contains(later.said), e::getMessage);
            }
            pmem.putLong(record + Layout.of(type.fields()).offsets()[0], 0);
        }
    }

    private static void requireSound(Pool pool) {
        List<String> problems = pool.check().problems();
        if (!problems.isEmpty()) {
            throw new PoolDamagedException(problems.getFirst());
        }
    }

    /// The pool, with another version; and with the checksum for that one, if so.
    private void setVersion(ByteBuffer page, int version, boolean isRight) throws IOException {
        page.putInt(8, version);
        if (isRight) {
            CRC32C crc = new CRC32C();
            crc.update(page.array(), 0, 56);
            page.putLong(56, crc.getValue());
        }
        Files.write(dir.resolve("pool"), page.array());
    }

    @Test
    void aLaterVersionIsRefusedAsThat() throws IOException {
        PoolOptions options = GoldenPool.extract(GoldenPool.Kept.CHECKED_DISK, dir);
        ByteBuffer page =
                ByteBuffer.wrap(Files.readAllBytes(dir.resolve("pool")))
                        .order(ByteOrder.LITTLE_ENDIAN);
        for (int version : new int[] {Superblock.VERSION + 1, 77, Integer.MAX_VALUE}) {
            setVersion(page, version, true);
            for (PoolOptions each : List.of(options, options.toRead())) {
                String said = refusal(each);
                assertTrue(
                        said.contains("is a pool of version " + version)
                                && said.contains("use a newer library"),
                        said);
            }
        }
    }

    /// One that a newer library has stored has a checksum that is right.
    @Test
    void aDamagedVersionIsNoLaterOne() throws IOException {
        PoolOptions options = GoldenPool.extract(GoldenPool.Kept.CHECKED_DISK, dir);
        byte[] sound = Files.readAllBytes(dir.resolve("pool"));
        for (int bit = 0; bit < Integer.SIZE; bit++) {
            ByteBuffer page = ByteBuffer.wrap(sound.clone()).order(ByteOrder.LITTLE_ENDIAN);
            int version = Superblock.VERSION ^ 1 << bit;
            setVersion(page, version, false);
            String said =
                    "pool: the superblock is damaged"
                            + (version < Superblock.VERSION
                                    ? ""
                                    : ", or a newer library was ended while it made this a pool of"
                                            + " version "
                                            + version
                                            + ": open it with that library, or use a copy");
            expectDamaged(options, page, said);
        }
    }
}
