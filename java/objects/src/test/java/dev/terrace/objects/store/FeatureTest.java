package dev.terrace.objects.store;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.GoldenPool;
import dev.terrace.objects.InMemory;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import dev.terrace.objects.PoolOptions;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What becomes of pools with features that a later library has given them.
class FeatureTest {
    private static final int BITS = 40;
    /// In the order of their words.
    private static final List<String> KINDS = List.of("compatible", "read-compatible", "incompatible");

    @TempDir(factory = InMemory.class)
    Path dir;

    /// Gives the pool a feature, as a library does that knows it.
    private PoolOptions giveFeature(long at, int number) throws IOException {
        PoolOptions options = GoldenPool.extract(GoldenPool.Kept.CHECKED_DISK, dir);
        ByteBuffer pool = ByteBuffer.wrap(Files.readAllBytes(dir.resolve("pool"))).order(ByteOrder.LITTLE_ENDIAN);
        long bits = pool.getLong((int) at) & (1L << BITS) - 1 | 1L << number;
        CRC32C crc = new CRC32C();
        crc.update(ByteBuffer.allocate(16).order(ByteOrder.LITTLE_ENDIAN).putLong(bits).putLong(at).flip());
        pool.putLong((int) at, bits | crc.getValue() << BITS);
        Files.write(dir.resolve("pool"), pool.array());
        return options;
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
        assertTrue(said.contains("read-compatible feature 12,") && said.contains("open it to read"), said);
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
            assertTrue(said.contains("incompatible feature 39,") && said.contains("newer library"), said);
        }
        assertArrayEquals(before, Files.readAllBytes(dir.resolve("pool")));
    }

    private String refusal(PoolOptions options) {
        return String.valueOf(assertThrows(PoolFormatException.class, () -> Pool.open(dir, options)).getMessage());
    }

    /// None of their bits can change alone, nor a word stand in another's place.
    @Test
    void aDamagedWordIsNoticed() throws IOException {
        PoolOptions options = GoldenPool.extract(GoldenPool.Kept.CHECKED_DISK, dir);
        byte[] sound = Files.readAllBytes(dir.resolve("pool"));
        for (long at = Superblock.COMPATIBLE_AT; at <= Superblock.INCOMPATIBLE_AT; at += Long.BYTES) {
            ByteBuffer page = ByteBuffer.wrap(sound.clone()).order(ByteOrder.LITTLE_ENDIAN);
            long word = page.getLong((int) at);
            String whose = KINDS.get((int) (at - Superblock.COMPATIBLE_AT) / Long.BYTES);
            String said = "pool: the word of its " + whose + " features is damaged";
            for (int bit = 0; bit < Long.SIZE; bit++) {
                expectDamaged(options, page.putLong((int) at, word ^ 1L << bit), said);
            }
            expectDamaged(options, page.putLong((int) at, 0), said);
            expectDamaged(options, page.putLong((int) at, -1), said);
            long other = at == Superblock.COMPATIBLE_AT ? Superblock.READ_COMPATIBLE_AT : Superblock.COMPATIBLE_AT;
            expectDamaged(options, page.putLong((int) at, page.getLong((int) other)), said);
        }
    }

    private void expectDamaged(PoolOptions options, ByteBuffer page, String said) throws IOException {
        Files.write(dir.resolve("pool"), page.array());
        PoolDamagedException e = assertThrows(PoolDamagedException.class, () -> Pool.open(dir, options.toRead()));
        assertTrue(String.valueOf(e.getMessage()).endsWith(said), e::getMessage);
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
        ByteBuffer page = ByteBuffer.wrap(Files.readAllBytes(dir.resolve("pool"))).order(ByteOrder.LITTLE_ENDIAN);
        for (int version : new int[] {Superblock.VERSION + 1, 77, Integer.MAX_VALUE}) {
            setVersion(page, version, true);
            for (PoolOptions each : List.of(options, options.toRead())) {
                String said = refusal(each);
                assertTrue(said.contains("is a pool of version " + version) && said.contains("use a newer library"), said);
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
            String said = "pool: the superblock is damaged" + (version < Superblock.VERSION
                    ? ""
                    : ", or a newer library was ended while it made this a pool of version " + version
                            + ": open it with that library, or use a copy");
            expectDamaged(options, page, said);
        }
    }
}
