package dev.terrace.objects.store;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.GoldenPool;
import dev.terrace.objects.InMemory;
import dev.terrace.objects.StorageTier;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// `POOL-FORMAT.md` says what the code does: its tables are compared with the code, and a pool is read by nothing but them.
class FormatDocTest {
    private static final Path PAGE = Path.of("..", "docs", "POOL-FORMAT.md");
    private static final List<String> FIELDS = List.of("offset", "size", "field", "meaning");

    private final String page;

    FormatDocTest() throws IOException {
        page = Files.readString(PAGE);
    }

    /// The rows of the tables with this header, without the backquotes around names, table after table.
    private static List<List<List<String>>> tables(String page, List<String> header) {
        List<List<List<String>>> tables = new ArrayList<>();
        List<List<String>> table = null;
        for (String line : page.lines().toList()) {
            if (!line.startsWith("|")) {
                table = null;
                continue;
            }
            List<String> cells = Arrays.stream(line.substring(1, line.length() - 1).split("\\|"))
                    .map(cell -> cell.strip().replaceAll("^`|`$", ""))
                    .toList();
            if (cells.equals(header)) {
                table = new ArrayList<>();
                tables.add(table);
            } else if (table != null && !cells.getFirst().equals("---")) {
                table.add(cells);
            }
        }
        return tables;
    }

    private List<List<String>> table(String... header) {
        List<List<List<String>>> found = tables(page, List.of(header));
        assertEquals(1, found.size(), "there is one table " + List.of(header));
        return found.getFirst();
    }

    /// A constant of the code, which may be private.
    private static long constant(String name) throws ReflectiveOperationException {
        int dot = name.lastIndexOf('.');
        Field field = Class.forName("dev.terrace.objects." + name.substring(0, dot)).getDeclaredField(name.substring(dot + 1));
        field.setAccessible(true);
        return ((Number) field.get(null)).longValue();
    }

    @Test
    void theConstantsAreTheCodes() throws ReflectiveOperationException {
        Map<String, String> code = new LinkedHashMap<>();
        code.put("SUPERBLOCK_BYTES", "store.Superblock.BYTES");
        code.put("CHECKED_BYTES", "store.Superblock.CHECKED_BYTES");
        code.put("DISKS_MAX", "store.Superblock.DISKS_MAX");
        code.put("DISK_BYTES", "store.Superblock.DISK_BYTES");
        code.put("CHUNK_BYTES", "store.SizeClasses.CHUNK_BYTES");
        code.put("BITMAP_BYTES", "store.Allocator.BITMAP_BYTES");
        code.put("GRANULE_BYTES", "store.SizeClasses.GRANULE_BYTES");
        code.put("GENERATION_MAX", "store.Headers.GENERATION_MAX");
        code.put("TYPE_FREE", "store.Headers.FREE");
        code.put("TYPE_CLASS_MAX", "Types.ID_MAX");
        code.put("TYPE_EXTENSION", "Types.EXTENSION");
        code.put("TYPE_BUFFER", "store.Headers.BUFFER");
        code.put("LOG_HEADER_BYTES", "store.CommitLog.HEADER_BYTES");
        code.put("LOG_WORD_BYTES", "store.CommitLog.WORD_BYTES");
        code.put("LABEL_BYTES", "store.DiskLabel.BYTES");
        code.put("LINK_BYTES", "store.Chain.BYTES");
        code.put("INLINE_BYTES_MAX", "store.Buffers.INLINE_BYTES_MAX");
        code.put("RECORD_BYTES_MIN", "store.SizeClasses.SLOT_BYTES_MIN");
        Map<String, Long> coded = new LinkedHashMap<>();
        for (Map.Entry<String, String> entry : code.entrySet()) {
            coded.put(entry.getKey(), constant(entry.getValue()));
        }
        Map<String, Long> documented = new LinkedHashMap<>();
        table("constant", "value", "meaning").forEach(row -> documented.put(row.get(0), Long.valueOf(row.get(1))));
        assertEquals(coded, documented);
        assertTrue(page.contains("\nFormat version: **" + Superblock.VERSION + "**\n"));
        assertTrue(page.contains("\n* **" + Superblock.VERSION + "**:"), "it is in the list of changes");
        assertTrue(page.contains("pool `" + ascii(constant("store.Superblock.MAGIC")) + "`, disk `"
                + ascii(constant("store.DiskLabel.MAGIC")) + "`"));
    }

    private static String ascii(long word) {
        return new String(ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(word).array(), ISO_8859_1);
    }

    @Test
    void theSizeClassesAreTheCodes() {
        List<List<String>> coded = new ArrayList<>();
        for (int i = 0; i < SizeClasses.count(); i++) {
            coded.add(List.of("" + i, "" + SizeClasses.slotBytes(i), "" + SizeClasses.slots(i)));
        }
        assertEquals(coded, table("size class", "bytes", "slots"));
    }

    @Test
    void kindsTiersAndSlotsAreTheCodes() throws ReflectiveOperationException {
        List<List<String>> kinds = Arrays.stream(FieldKind.values())
                .map(kind -> List.of("" + kind.ordinal(), kind.name(), "" + kind.width()))
                .toList();
        assertEquals(kinds, table("kind number", "kind", "bytes"));
        List<List<String>> tiers = Arrays.stream(StorageTier.values())
                .map(tier -> List.of("" + tier.ordinal(), tier.name()))
                .toList();
        assertEquals(tiers, table("tier number", "tier"));
        for (List<String> row : table("kind", "name", "other bits")) {
            long coded = row.get(1).equals("NULL") ? Buffers.NULL : constant("store.Buffers.KIND_" + row.get(1));
            assertEquals(coded, Long.parseLong(row.get(0)), row.get(1));
        }
    }

    @Test
    void theExampleIsLaidOutAsThePageSays() {
        List<FieldSpec> fields = List.of(
                FieldSpec.of("flag", FieldKind.BOOLEAN),
                FieldSpec.of("row", FieldKind.DOUBLES).ofLength(3),
                FieldSpec.of("count", FieldKind.INT),
                FieldSpec.of("maybe", FieldKind.LONG).orNull(),
                FieldSpec.of("name", FieldKind.STRING).orNull(),
                FieldSpec.of("cache", FieldKind.LONG).on(StorageTier.DRAM),
                FieldSpec.of("image", FieldKind.BYTES).on(StorageTier.DISK).orNull());
        Layout layout = Layout.of(fields);
        List<List<String>> rows = table("field", "kind and tier", "offset", "presence bit");
        assertEquals(fields.stream().map(FieldSpec::name).toList(), rows.stream().map(List::getFirst).toList());
        for (int i = 0; i < rows.size(); i++) {
            assertEquals(layout.offsets()[i], number(rows.get(i).get(2)), rows.get(i).getFirst());
            assertEquals(layout.presence()[i], number(rows.get(i).get(3)), rows.get(i).getFirst());
        }
        assertTrue(page.contains("these fields has records of " + layout.bytes() + " bytes"));
    }

    private static int number(String cell) {
        return cell.equals("–") ? -1 : Integer.parseInt(cell);
    }

    /// A structure in a file, read as the page says.
    private static final class Structure {
        private final ByteBuffer bytes;
        private final long begin;
        private final Map<String, List<String>> rows = new LinkedHashMap<>();

        Structure(ByteBuffer bytes, long begin, List<List<String>> table) {
            this.bytes = bytes;
            this.begin = begin;
            table.forEach(row -> rows.put(row.get(2), row));
        }

        int at(String field) {
            return (int) begin + Integer.parseInt(rows.get(field).get(0));
        }

        int size(String field) {
            return Integer.parseInt(rows.get(field).get(1));
        }

        long get(String field) {
            return size(field) == 4 ? bytes.getInt(at(field)) : bytes.getLong(at(field));
        }

        /// The structure's length; its fields leave no gaps.
        int length() {
            int end = (int) begin;
            for (String field : rows.keySet()) {
                assertEquals(end, at(field), field);
                end += size(field);
            }
            return end - (int) begin;
        }

        long crc(int length) {
            CRC32C crc = new CRC32C();
            crc.update(bytes.array(), (int) begin, length);
            return crc.getValue();
        }
    }

    private List<List<String>> structure(int index) {
        return tables(page, FIELDS).get(index);
    }

    private static ByteBuffer read(Path file) throws IOException {
        return ByteBuffer.wrap(Files.readAllBytes(file)).order(ByteOrder.LITTLE_ENDIAN);
    }

    @Test
    void theSuperblockIsWhatThePageSays(@TempDir(factory = InMemory.class) Path dir) throws IOException {
        GoldenPool.extract(dir);
        ByteBuffer pool = read(dir.resolve("pool"));
        Structure superblock = new Structure(pool, 0, structure(0));
        assertEquals(Superblock.BYTES, superblock.length());
        assertEquals("TERROBJ1", ascii(superblock.get("magic")));
        assertEquals(Superblock.VERSION, superblock.get("version"));
        assertEquals(GoldenPool.SUPERBLOCK.extentShift(), superblock.get("extent_shift"));
        assertEquals(GoldenPool.SUPERBLOCK.id().getMostSignificantBits(), superblock.get("id_high"));
        assertEquals(GoldenPool.SUPERBLOCK.id().getLeastSignificantBits(), superblock.get("id_low"));
        assertEquals(GoldenPool.SUPERBLOCK.secret(), superblock.get("secret"));
        assertEquals(GoldenPool.SUPERBLOCK.logBytes(), superblock.get("log_bytes"));
        assertEquals(superblock.crc(superblock.at("checksum")), superblock.get("checksum"));
        assertEquals(Superblock.SEQUENCE_AT, superblock.at("sequence"));
        assertEquals(0, superblock.get("sequence") % 2);
        assertEquals(Superblock.EXTENTS_AT, superblock.at("extents"));
        assertEquals(1, superblock.get("extents"));
        assertEquals(Superblock.TYPES_AT, superblock.at("types"));
        assertEquals(Superblock.ROOTS_AT, superblock.at("roots"));
        assertEquals(Superblock.DISKS_AT, superblock.at("disks"));
        assertEquals(Superblock.DISK_BYTES * Superblock.DISKS_MAX, superblock.size("disks"));
        assertEquals(1, pool.getLong(superblock.at("disks")), "extents of disk 0");
        assertEquals(pool.getLong(superblock.at("disks") + 16), pool.getLong(superblock.at("disks") + 8), "first map and last");
        List<String> zeros = superblock.rows.keySet().stream().filter(field -> field.startsWith("reserved")).toList();
        for (String field : zeros) {
            for (int i = 0; i < superblock.size(field); i++) {
                assertEquals(0, pool.get(superblock.at(field) + i), field);
            }
        }
        assertEquals(0xffff, pool.getLong((int) pool.getLong(superblock.at("disks") + 24)) >>> 24 & 0xffff, "a map that waits");
        for (int i = (int) Superblock.DISK_BYTES; i < superblock.size("disks"); i++) {
            assertEquals(0, pool.get(superblock.at("disks") + i), "disks that are not there");
        }
    }

    @Test
    void logAndLabelAreWhatThePageSays(@TempDir(factory = InMemory.class) Path dir) throws IOException {
        GoldenPool.extract(dir);
        ByteBuffer pool = read(dir.resolve("pool"));
        Structure log = new Structure(pool, Superblock.LOG_AT, structure(1));
        assertEquals(32, log.length());
        assertEquals(1, log.get("log_sequence") % 2);
        assertEquals(0, log.get("words_at"));
        int count = (int) log.get("count");
        for (int i = 0; i < count; i++) {
            int at = (int) Superblock.LOG_AT + log.length() + 16 * i;
            assertEquals(pool.getLong(at + 8), pool.getLong((int) pool.getLong(at)), "the word is in its place");
        }
        long checksum = log.get("log_checksum");
        pool.putLong(log.at("log_checksum"), 0);
        assertEquals(log.crc(log.length() + 16 * count), checksum);

        Structure label = new Structure(read(dir.resolve("disk-0")), 0, structure(3));
        assertEquals(40, label.length());
        assertEquals("TERRDISK", ascii(label.get("disk_magic")));
        assertEquals(GoldenPool.SUPERBLOCK.id().getMostSignificantBits(), label.get("pool_id_high"));
        assertEquals(GoldenPool.SUPERBLOCK.id().getLeastSignificantBits(), label.get("pool_id_low"));
        assertEquals(0, label.get("number"));
        assertEquals(label.crc(label.at("label_checksum")), label.get("label_checksum"));
    }

    /// From the superblock to an integer of an object, by the page alone.
    @Test
    void anObjectIsFoundByThePage(@TempDir(factory = InMemory.class) Path dir) throws IOException {
        GoldenPool.extract(dir);
        ByteBuffer pool = read(dir.resolve("pool"));
        Structure superblock = new Structure(pool, 0, structure(0));
        Map<String, Long> roots = new LinkedHashMap<>();
        long offset = superblock.get("roots");
        while (offset != 0) {
            Structure link = new Structure(pool, offset, structure(2));
            assertEquals(32, link.length());
            expectInUse(pool, superblock, offset, 0xffff);
            roots.put(text(pool, link.get("key")), link.get("value"));
            offset = link.get("next");
        }
        assertEquals(List.of("blank \u65e5", "thing 2", "thing 1", "thing 0", "extended", "old"), List.copyOf(roots.keySet()));
        long old = roots.get("old");
        long record = (old & (1L << 40) - 1) * 16;
        assertEquals(old >>> 40, pool.getLong((int) record) & 0xffffff, "the generation");
        expectInUse(pool, superblock, record, 1);
        assertEquals(0, pool.getLong((int) record + 8), "no extension");
        // Of four bytes, the only field.
        assertEquals(-7, pool.getInt((int) record + 16));
    }

    private void expectInUse(ByteBuffer pool, Structure superblock, long offset, int type) {
        long header = pool.getLong((int) offset);
        assertEquals(type, header >>> 24 & 0xffff);
        long secret = superblock.get("secret");
        assertEquals(((offset ^ secret) * 0x9e3779b97f4a7c15L ^ secret) >>> 40, header >>> 40, "the mark");
        int map = (int) (Superblock.BYTES + superblock.get("log_bytes"));
        int chunks = (int) ((1L << superblock.get("extent_shift")) / 65536);
        int chunk = (int) (offset / 65536);
        long descriptor = pool.getLong(map + 8 * chunk);
        assertEquals(1, descriptor & 0xff, "cut into slots");
        int bytes = Integer.parseInt(table("size class", "bytes", "slots").get((int) (descriptor >>> 32)).get(1));
        assertEquals(0, offset % 65536 % bytes);
        int slot = (int) (offset % 65536) / bytes;
        long bits = pool.getLong(map + 8 * chunks + 256 * chunk + slot / 64 * 8);
        assertEquals(1, bits >>> slot % 64 & 1, "the slot is in use");
    }

    private static String text(ByteBuffer pool, long slot) {
        byte[] bytes;
        if ((slot & 0xf) == 1) {
            bytes = new byte[(int) (slot >>> 4 & 0xf)];
            for (int i = 0; i < bytes.length; i++) {
                bytes[i] = (byte) (slot >>> 8 * (i + 1));
            }
        } else {
            assertEquals(2, slot & 0xf);
            int at = (int) (slot >>> 24) * 16;
            bytes = new byte[(int) pool.getLong(at + 8)];
            pool.get(at + 16, bytes);
        }
        String latin = new String(bytes, 1, bytes.length - 1, ISO_8859_1);
        return bytes[0] == 0 ? latin : new String(bytes, 1, bytes.length - 1, java.nio.charset.StandardCharsets.UTF_16LE);
    }

    /// The comparison itself notices a page that is wrong.
    @Test
    void aWrongPageIsNoticed() {
        List<List<String>> right = table("size class", "bytes", "slots");
        String changed = page.replace("| 5 | 112 | 585 |", "| 5 | 112 | 586 |");
        assertNotEquals(page, changed);
        assertNotEquals(right, tables(changed, List.of("size class", "bytes", "slots")).getFirst());
        assertEquals(4, tables(page, FIELDS).size(), "superblock, log, link, label");
    }
}
