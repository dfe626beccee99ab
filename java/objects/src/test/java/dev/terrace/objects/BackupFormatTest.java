package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.internal.store.Superblock;
import dev.terrace.objects.internal.store.Watch;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// `BACKUP-FORMAT.md` says what the code does: a reader that was written from the page alone makes
/// the same files of a backup.
class BackupFormatTest {
    private static final Path PAGE = Path.of("..", "docs", "BACKUP-FORMAT.md");
    private static final int BLOCK = 65_536;

    @TempDir Path dir;

    @Test
    void theWordsOfTheTalk() throws IOException {
        String page = Files.readString(PAGE);
        Map<String, Long> words = new HashMap<>();
        Matcher row = Pattern.compile("\\| (\\d+) \\| `([a-z]+)` \\|").matcher(page);
        while (row.find()) {
            words.put(row.group(2), Long.parseLong(row.group(1)));
        }
        assertEquals(
                Map.of(
                        "calls", Watch.CALLS_AT,
                        "request", Watch.REQUEST_AT,
                        "pause", Watch.PAUSE_AT,
                        "session", Watch.SESSION_AT,
                        "told", Watch.TOLD_AT,
                        "paused", Watch.PAUSED_AT),
                words);
        assertTrue(page.contains(Watch.BYTES + " bytes of the superblock"));
        assertTrue(page.contains("at offset " + Superblock.WATCH_AT));
        assertTrue(page.contains("a front of " + Watch.FRONT_BYTES + " bytes"));
        assertTrue(page.contains("The word is 10 to " + Watch.MARKS_SHIFT_MAX + "."));
        assertEquals(100_000_000, Watch.PAUSE_NANOS_MAX, "a tenth of a second");
    }

    private static byte[] sha256(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (NoSuchAlgorithmException e) {
            throw new AssertionError(e);
        }
    }

    private static ByteBuffer hash(ByteBuffer from) {
        byte[] hash = new byte[32];
        from.get(hash);
        return ByteBuffer.wrap(hash);
    }

    private static Map<ByteBuffer, byte[]> blocks(Path pack) throws IOException {
        byte[] all = Files.readAllBytes(pack);
        ByteBuffer from = ByteBuffer.wrap(all);
        int count = (int) from.getLong(all.length - 40);
        assertEquals(count * (BLOCK + 32L) + 40, all.length);
        byte[] hashes = Arrays.copyOfRange(all, count * BLOCK, all.length - 40);
        assertArrayEquals(sha256(hashes), Arrays.copyOfRange(all, all.length - 32, all.length));
        Map<ByteBuffer, byte[]> blocks = new HashMap<>();
        ByteBuffer each = ByteBuffer.wrap(hashes);
        for (int i = 0; i < count; i++) {
            byte[] block = Arrays.copyOfRange(all, i * BLOCK, (i + 1) * BLOCK);
            ByteBuffer hash = hash(each);
            assertArrayEquals(sha256(block), hash.array());
            blocks.put(hash, block);
        }
        return blocks;
    }

    @Test
    void aReaderMadeFromThePageAlone() throws IOException {
        Path disk = Files.createDirectory(dir.resolve("disk"));
        Path safe = dir.resolve("safe");
        Backup backup;
        try (Pool pool = Pool.open(dir.resolve("pool"), KillWorkload.options(disk))) {
            KillWorkload workload = new KillWorkload(pool);
            workload.prepare();
            Backups.in(safe).add(pool);
            workload.step(1);
            backup = Backups.in(safe).add(pool);
        }
        assertEquals(
                "terrace-objects backups, version 1\n",
                Files.readString(safe.resolve("terrace-backups")));
        byte[] state = Files.readAllBytes(safe.resolve("state-0000000000000002"));
        assertArrayEquals(
                sha256(Arrays.copyOf(state, state.length - 32)),
                Arrays.copyOfRange(state, state.length - 32, state.length));
        ByteBuffer from = ByteBuffer.wrap(state, 0, state.length - 32);
        byte[] magic = new byte[8];
        from.get(magic);
        assertEquals("TERRBACK", new String(magic, StandardCharsets.US_ASCII));
        assertEquals(1, from.getInt());
        int count = from.getInt();
        assertEquals(2, count);
        assertEquals(2, from.getLong());
        assertEquals(backup.time().toEpochMilli(), from.getLong());
        assertEquals(backup.pool().getMostSignificantBits(), from.getLong());
        assertEquals(backup.pool().getLeastSignificantBits(), from.getLong());
        assertEquals(2 * backup.commit(), from.getLong());
        assertEquals(backup.bytesStored(), from.getLong());
        Map<ByteBuffer, byte[]> blocks = new HashMap<>();
        blocks.put(ByteBuffer.wrap(new byte[32]), new byte[BLOCK]);
        int packs = from.getInt();
        assertEquals(2, packs);
        for (int i = 0; i < packs; i++) {
            blocks.putAll(blocks(safe.resolve(String.format("pack-%016x", from.getLong()))));
        }
        List<byte[]> files = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            from.getInt();
            ByteBuffer file = ByteBuffer.allocate(from.getInt() * BLOCK);
            while (file.hasRemaining()) {
                byte[] block = blocks.get(hash(from));
                assertTrue(block != null, "a block that is in no pack");
                file.put(block);
            }
            files.add(file.array());
        }
        assertEquals(0, from.remaining());
        Path data = Files.createDirectory(dir.resolve("data"));
        Backups.in(safe).restore(dir.resolve("to"), KillWorkload.options(data));
        List<Path> places = List.of(dir.resolve("to").resolve("pool"), data.resolve("disk-0"));
        for (int i = 0; i < count; i++) {
            byte[] found = Files.readAllBytes(places.get(i));
            assertEquals(found.length, files.get(i).length);
            // The first page has the new pool's identity.
            assertEquals(
                    -1,
                    Arrays.mismatch(
                            Arrays.copyOfRange(files.get(i), 4096, found.length),
                            Arrays.copyOfRange(found, 4096, found.length)));
        }
    }
}
