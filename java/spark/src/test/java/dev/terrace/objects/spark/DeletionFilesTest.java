package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.BitSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.roaringbitmap.RoaringBitmap;

/// Bitmaps of deleted rows, in files and over blocks.
class DeletionFilesTest {
    /// What RoaringBitmap specifies of the rows 1, 3 and 5: the cookie 12346 and one container; its
    /// key 0, and that it has 3 values; that it is 16 bytes behind the front; the values.
    private static final String GOLDEN =
            "3a300000" + "01000000" + "0000" + "0200" + "10000000" + "010003000500";

    @TempDir private Path dir;

    private DeletionFiles files() throws IOException {
        return new DeletionFiles(Storage.of(dir.toString(), new Configuration(false)));
    }

    private static Part part(String name, long rows) {
        return new Part(name, null, null, List.of(), rows, 1, List.of());
    }

    @Test
    void bytesAreThoseOfTheSpecification() throws IOException {
        Map<String, RoaringBitmap> rows = new TreeMap<>();
        rows.put("a", RoaringBitmap.bitmapOf(1, 3, 5));
        rows.put("b", RoaringBitmap.bitmapOf(5, 1, 3));
        Map<String, Deletions> written = files().write("job", rows);
        assertEquals(
                GOLDEN.repeat(2),
                HexFormat.of()
                        .formatHex(Files.readAllBytes(dir.resolve("deletions").resolve("job"))));
        assertEquals(new Deletions("job", 22, 22, "55c4fd3c", 3), written.get("b"));
        assertThrows(FileAlreadyExistsException.class, () -> files().write("job", rows));
    }

    @Test
    void eachDamageIsNamed() throws IOException {
        RoaringBitmap rows =
                RoaringBitmap.bitmapOf(IntStream.range(0, 500).map(i -> i * 3).toArray());
        Part part = part("a", 1500).with(files().write("job", Map.of("a", rows)).get("a"));
        assertEquals(rows, files().read(part));
        assertTrue(files().read(part("a", 1500)).isEmpty());
        assertDamaged(part("a", 1497).with(part.deletions()), "other rows than the manifest says");
        Path file = dir.resolve("deletions").resolve("job");
        byte[] bytes = Files.readAllBytes(file);
        for (int i = 0; i < bytes.length; i++) {
            byte[] damaged = bytes.clone();
            damaged[i] = (byte) (damaged[i] ^ 1 << i % 8);
            Files.write(file, damaged);
            assertDamaged(part, "checksum");
        }
        Files.write(file, new byte[10]);
        assertDamaged(part, "too short");
        Files.delete(file);
        String gone =
                assertThrows(PoolFormatException.class, () -> files().read(part)).getMessage();
        assertTrue(gone.contains(file.toString()) && gone.contains("part a"), gone);
    }

    private void assertDamaged(Part part, String why) {
        String message =
                assertThrows(PoolDamagedException.class, () -> files().read(part)).getMessage();
        assertTrue(
                message.contains(dir.resolve("deletions").resolve("job").toString())
                        && message.contains("part a")
                        && message.contains(why),
                message);
    }

    /// Blocks have the rows that a set of bits leaves them, also for a reader that skips some.
    @Test
    void rowsOfBlocksAreThoseThatAreNotDeleted() {
        Random random = new Random(7);
        for (int trial = 0; trial < 200; trial++) {
            int all = 1 + random.nextInt(300);
            BitSet deleted = new BitSet();
            int share = random.nextInt(11);
            IntStream.range(0, all).filter(_ -> random.nextInt(10) < share).forEach(deleted::set);
            LiveRows rows = new LiveRows(RoaringBitmap.bitmapOf(deleted.stream().toArray()));
            int from = 0;
            while (from < all) {
                int count = Math.min(all - from, 1 + random.nextInt(30));
                if (random.nextInt(3) > 0) {
                    rows.lead(from, count);
                    int first = from;
                    assertArrayEquals(
                            IntStream.range(0, count)
                                    .filter(i -> !deleted.get(first + i))
                                    .toArray(),
                            IntStream.range(0, rows.count()).map(rows::at).toArray());
                    assertEquals(rows.count() == count, rows.areAll());
                }
                from += count;
            }
        }
    }

    @Test
    void idsAreNumbersOfPartsAndRows() {
        long far = (1L << Integer.SIZE) - 3;
        LiveRows rows = new LiveRows(RoaringBitmap.bitmapOf((int) far + 1));
        rows.lead(far, 3);
        long[] ids = new long[2];
        RowIds.copy(Integer.MAX_VALUE, far, rows, ids);
        assertEquals(Integer.MAX_VALUE, RowIds.part(ids[1]));
        assertEquals(far + 2, Integer.toUnsignedLong(RowIds.row(ids[1])));
        rows.lead(far + 3, 2);
        assertEquals(2, rows.count());
        assertThrows(IllegalArgumentException.class, () -> RowIds.copy(0, far + 3, rows, ids));
    }
}
