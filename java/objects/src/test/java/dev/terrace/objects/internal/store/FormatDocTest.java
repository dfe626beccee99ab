package dev.terrace.objects.internal.store;

import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.GoldenPool;
import dev.terrace.objects.InMemory;
import dev.terrace.objects.Layout;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.Thing;
import dev.terrace.objects.internal.collections.Heap;
import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.UUID;
import java.util.zip.CRC32C;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// `POOL-FORMAT.md` says what the code does: its tables are compared with the code, and a pool is
/// read by nothing but them.
///
/// Longer than 600 lines: it reads one page from top to bottom, a method per table.
class FormatDocTest {
    private static final Path PAGE = Path.of("..", "docs", "POOL-FORMAT.md");
    private static final List<String> FIELDS = List.of("offset", "size", "field", "meaning");

    private final String page;

    FormatDocTest() throws IOException {
        page = Files.readString(PAGE);
    }

    /// The rows of the tables with this header, without the backquotes around names, table after
    /// table.
    private static List<List<List<String>>> tables(String page, List<String> header) {
        List<List<List<String>>> tables = new ArrayList<>();
        List<List<String>> table = null;
        for (String line : page.lines().toList()) {
            if (!line.startsWith("|")) {
                table = null;
                continue;
            }
            List<String> cells =
                    Arrays.stream(line.substring(1, line.length() - 1).split("\\|"))
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
        Field field =
                Class.forName("dev.terrace.objects." + name.substring(0, dot))
                        .getDeclaredField(name.substring(dot + 1));
        field.setAccessible(true);
        return ((Number) field.get(null)).longValue();
    }

    @Test
    void theConstantsAreTheCodes() throws ReflectiveOperationException {
        Map<String, String> code = new LinkedHashMap<>();
        code.put("SUPERBLOCK_BYTES", "internal.store.Superblock.BYTES");
        code.put("CHECKED_BYTES", "internal.store.Superblock.CHECKED_BYTES");
        code.put("DISKS_MAX", "internal.store.Superblock.DISKS_MAX");
        code.put("DISK_BYTES", "internal.store.Superblock.DISK_BYTES");
        code.put("CHUNK_BYTES", "internal.store.SizeClasses.CHUNK_BYTES");
        code.put("BITMAP_BYTES", "internal.store.ChunkMap.BITMAP_BYTES");
        code.put("GRANULE_BYTES", "internal.store.SizeClasses.GRANULE_BYTES");
        code.put("GENERATION_MAX", "internal.store.Headers.GENERATION_MAX");
        code.put("TYPE_FREE", "internal.store.Headers.FREE");
        code.put("TYPE_CLASS_MAX", "Types.ID_MAX");
        code.put("TYPE_EXTENSION", "Types.EXTENSION");
        code.put("TYPE_BUFFER", "internal.store.Headers.BUFFER");
        code.put("LOG_HEADER_BYTES", "internal.store.CommitLog.HEADER_BYTES");
        code.put("LOG_WORD_BYTES", "internal.store.CommitLog.WORD_BYTES");
        code.put("LABEL_BYTES", "internal.store.DiskLabel.BYTES");
        code.put("TYPE_VALUE", "internal.store.Headers.VALUE");
        code.put("TYPE_SEGMENT", "internal.store.Headers.SEGMENT");
        code.put("SEGMENT_HEADER_BYTES", "internal.store.Segment.HEADER_BYTES");
        code.put("VALUE_FRONT_BYTES", "internal.store.Segment.FRONT_BYTES");
        code.put("REMOTE_RECORD_BYTES", "internal.store.Remote.RECORD_BYTES");
        code.put("CHECKED_FRONT_BYTES", "internal.store.CheckedFront.BYTES");
        code.put("LINK_BYTES", "internal.store.Chain.BYTES");
        code.put("INLINE_BYTES_MAX", "internal.store.Buffers.INLINE_BYTES_MAX");
        code.put("RECORD_BYTES_MIN", "internal.store.SizeClasses.SLOT_BYTES_MIN");
        code.put("FRONT_BYTES", "internal.store.Columns.FRONT_BYTES");
        Map<String, Long> coded = new LinkedHashMap<>();
        for (Map.Entry<String, String> entry : code.entrySet()) {
            coded.put(entry.getKey(), constant(entry.getValue()));
        }
        Map<String, Long> documented = new LinkedHashMap<>();
        table("constant", "value", "meaning")
                .forEach(row -> documented.put(row.get(0), Long.valueOf(row.get(1))));
        assertEquals(coded, documented);
        assertTrue(page.contains("\nFormat version: **" + Superblock.VERSION + "**\n"));
        for (int version = 1; version <= Superblock.VERSION; version++) {
            assertTrue(
                    page.contains("\n* **" + version + "**:"),
                    version + " is in the list of changes");
        }
        assertTrue(
                page.contains(
                        "pool `"
                                + ascii(constant("internal.store.Superblock.MAGIC"))
                                + "`, disk `"
                                + ascii(constant("internal.store.DiskLabel.MAGIC"))
                                + "`, segment `"
                                + ascii(constant("internal.store.Segment.MAGIC"))
                                + "`"));
    }

    private static String ascii(long word) {
        return new String(
                ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(word).array(),
                ISO_8859_1);
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
    void theFeaturesAreTheCodes() {
        List<List<String>> documented =
                table("word", "bit", "feature", "since then").stream()
                        .map(row -> row.subList(0, 3))
                        .toList();
        List<List<String>> coded =
                Arrays.stream(Feature.values())
                        .map(feature ->
                                List.of(
                                        feature.word().name().toLowerCase(Locale.ROOT),
                                        "" + Long.numberOfTrailingZeros(feature.bit()),
                                        feature.name()))
                        .toList();
        assertEquals(coded, documented);
    }

    /// The word of these features, as the page says.
    private static long features(long bits, int at) {
        CRC32C crc = new CRC32C();
        crc.update(
                ByteBuffer.allocate(16)
                        .order(ByteOrder.LITTLE_ENDIAN)
                        .putLong(bits)
                        .putLong(at)
                        .flip());
        return bits | crc.getValue() << 40;
    }

    @Test
    void kindsTiersAndSlotsAreTheCodes() throws ReflectiveOperationException {
        List<List<String>> kinds =
                Arrays.stream(FieldKind.values())
                        .map(kind -> List.of("" + kind.ordinal(), kind.name(), "" + kind.width()))
                        .toList();
        assertEquals(kinds, table("kind number", "kind", "bytes"));
        List<List<String>> tiers =
                Arrays.stream(StorageTier.values())
                        .map(tier -> List.of("" + tier.ordinal(), tier.name()))
                        .toList();
        assertEquals(tiers, table("tier number", "tier"));
        for (List<String> row : table("kind", "name", "other bits")) {
            long coded =
                    row.get(1).equals("NULL")
                            ? Buffers.NULL
                            : constant("internal.store.Buffers.KIND_" + row.get(1));
            assertEquals(coded, Long.parseLong(row.get(0)), row.get(1));
        }
    }

    @Test
    void theExampleIsLaidOutAsThePageSays() {
        List<FieldSpec> fields =
                List.of(
                        FieldSpec.of("flag", FieldKind.BOOLEAN),
                        FieldSpec.of("row", FieldKind.DOUBLES).ofLength(3),
                        FieldSpec.of("count", FieldKind.INT),
                        FieldSpec.of("maybe", FieldKind.LONG).orNull(),
                        FieldSpec.of("name", FieldKind.STRING).orNull(),
                        FieldSpec.of("cache", FieldKind.LONG).on(StorageTier.DRAM),
                        FieldSpec.of("image", FieldKind.BYTES).on(StorageTier.DISK).orNull());
        Layout layout = Layout.of(fields);
        List<List<String>> rows = table("field", "kind and tier", "offset", "presence bit");
        assertEquals(
                fields.stream().map(FieldSpec::name).toList(),
                rows.stream().map(List::getFirst).toList());
        for (int i = 0; i < rows.size(); i++) {
            assertEquals(layout.offsets()[i], number(rows.get(i).get(2)), rows.get(i).getFirst());
            assertEquals(layout.presence()[i], number(rows.get(i).get(3)), rows.get(i).getFirst());
        }
        assertTrue(page.contains("these fields has records of " + layout.bytes() + " bytes"));
        Layout columns = Layout.of(fields, true);
        int count = columns.offsets()[2];
        int row = columns.offsets()[1];
        long chunk = 7 << 16;
        long record = chunk + 2 * Columns.FRONT_BYTES;
        String text = page.replace('\n', ' ');
        assertTrue(
                text.contains(
                        "`count` at byte %d × 819 + 2 × 4 = %d, and its `row` at byte"
                                .concat(" %d × 819 + 2 × 24 = %d")
                                .formatted(
                                        count,
                                        columns.place(record, 2) - chunk,
                                        row,
                                        columns.place(record, 1) - chunk)),
                "places in columns");
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
    void theSuperblockIsWhatThePageSays(@TempDir(factory = InMemory.class) Path dir)
            throws IOException {
        GoldenPool.extract(GoldenPool.Kept.CHECKED_DISK, dir);
        ByteBuffer pool = read(dir.resolve("pool"));
        Structure superblock = new Structure(pool, 0, structure(0));
        assertEquals(Superblock.BYTES, superblock.length());
        assertEquals("TERROBJ1", ascii(superblock.get("magic")));
        assertEquals(Superblock.VERSION, superblock.get("version"));
        assertEquals(GoldenPool.SUPERBLOCK.extentShift(), superblock.get("extent_shift"));
        assertEquals(
                GoldenPool.SUPERBLOCK.id().getMostSignificantBits(), superblock.get("id_high"));
        assertEquals(
                GoldenPool.SUPERBLOCK.id().getLeastSignificantBits(), superblock.get("id_low"));
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
        assertEquals(Superblock.REMOTE_NEXT_AT, superblock.at("remote_next"));
        assertEquals(Superblock.REMOTE_SETTLED_AT, superblock.at("remote_settled"));
        assertEquals(Superblock.REMOTE_EMPTY_AT, superblock.at("remote_empty"));
        assertEquals(Superblock.REMOTE_BYTES_AT, superblock.at("remote_bytes"));
        assertEquals(Superblock.REMOTE_LIVE_AT, superblock.at("remote_live"));
        assertEquals(Superblock.REMOTE_RESERVE_AT, superblock.at("remote_reserve"));
        assertEquals(Superblock.PLACEMENTS_AT, superblock.at("placements"));
        assertEquals(Superblock.WATCH_AT, superblock.at("backup"));
        assertEquals(Watch.BYTES, superblock.size("backup"));
        assertEquals(features(0, superblock.at("compatible")), superblock.get("compatible"));
        assertEquals(
                features(0, superblock.at("read_compatible")), superblock.get("read_compatible"));
        assertEquals(features(2, superblock.at("incompatible")), superblock.get("incompatible"));
        assertEquals(1, pool.getLong(superblock.at("disks")), "extents of disk 0");
        assertEquals(
                pool.getLong(superblock.at("disks") + 16),
                pool.getLong(superblock.at("disks") + 8),
                "first map and last");
        List<String> zeros =
                superblock.rows.keySet().stream()
                        .filter(field -> field.startsWith("reserved"))
                        .toList();
        for (String field : zeros) {
            for (int i = 0; i < superblock.size(field); i++) {
                assertEquals(0, pool.get(superblock.at(field) + i), field);
            }
        }
        assertEquals(
                0xffff,
                pool.getLong((int) pool.getLong(superblock.at("disks") + 24)) >>> 24 & 0xffff,
                "a map that waits");
        for (int i = (int) Superblock.DISK_BYTES; i < superblock.size("disks"); i++) {
            assertEquals(0, pool.get(superblock.at("disks") + i), "disks that are not there");
        }
    }

    @Test
    void logAndLabelAreWhatThePageSays(@TempDir(factory = InMemory.class) Path dir)
            throws IOException {
        GoldenPool.extract(GoldenPool.Kept.CHECKED_DISK, dir);
        ByteBuffer pool = read(dir.resolve("pool"));
        Structure log = new Structure(pool, Superblock.LOG_AT, structure(1));
        assertEquals(32, log.length());
        assertEquals(1, log.get("log_sequence") % 2);
        assertEquals(0, log.get("words_at"));
        int count = (int) log.get("count");
        for (int i = 0; i < count; i++) {
            int at = (int) Superblock.LOG_AT + log.length() + 16 * i;
            assertEquals(
                    pool.getLong(at + 8),
                    pool.getLong((int) pool.getLong(at)),
                    "the word is in its place");
        }
        long checksum = log.get("log_checksum");
        pool.putLong(log.at("log_checksum"), 0);
        assertEquals(log.crc(log.length() + 16 * count), checksum);

        Structure label = new Structure(read(dir.resolve("disk-0")), 0, structure(4));
        assertEquals(56, label.length());
        assertEquals("TERRDISK", ascii(label.get("disk_magic")));
        assertEquals(
                GoldenPool.SUPERBLOCK.id().getMostSignificantBits(), label.get("pool_id_high"));
        assertEquals(
                GoldenPool.SUPERBLOCK.id().getLeastSignificantBits(), label.get("pool_id_low"));
        assertEquals(0, label.get("number"));
        assertEquals(label.crc(label.at("label_checksum")), label.get("label_checksum"));
        assertEquals(0, label.get("tier") | label.get("tier_checksum"), "the golden pool is older");
        try (Pool made = Pool.open(dir.resolve("made"), PoolOptions.defaults().extents(1 << 20))) {
            made.create(Thing.on(StorageTier.SSD)).setBytes(new byte[100]);
        }
        Structure labelNow =
                new Structure(read(dir.resolve("made").resolve("disk-0")), 0, structure(4));
        assertEquals(StorageTier.SSD.ordinal(), labelNow.get("tier"));
        assertEquals(labelNow.crc(labelNow.at("tier_checksum")), labelNow.get("tier_checksum"));
    }

    /// From a slot to the bytes of a segment, by the page alone.
    @Test
    void aValueOnTheRemoteTierIsFoundByThePage(@TempDir(factory = InMemory.class) Path dir)
            throws IOException {
        RecordingSegmentStore segments = new RecordingSegmentStore(new ArrayList<>());
        long slotAt;
        try (Pool made = Pool.open(dir, PoolOptions.defaults().extents(1 << 20).remote(segments))) {
            Store store = Heap.of(made).store();
            slotAt =
                    store.transact(() -> {
                        long owner = store.allocate(32, Headers.BUFFER);
                        long first =
                                Heap.of(made)
                                        .buffers()
                                        .put(
                                                List.of(Medium.REMOTE),
                                                "first of two".getBytes(ISO_8859_1));
                        store.putWord(owner, owner + 8, first);
                        store.putWord(
                                owner,
                                owner + 16,
                                Heap.of(made)
                                        .buffers()
                                        .put(
                                                List.of(Medium.REMOTE),
                                                "second of two".getBytes(ISO_8859_1)));
                        return owner + 16;
                    });
        }
        ByteBuffer pool = read(dir.resolve("pool"));
        Structure superblock = new Structure(pool, 0, structure(0));
        assertEquals(features(3, superblock.at("incompatible")), superblock.get("incompatible"));
        CRC32C ofNumber = new CRC32C();
        ofNumber.update(new byte[] {2, 0, 0, 0, 0, 0, 0, 0});
        assertEquals(2 | ofNumber.getValue() << 40, superblock.get("remote_next"));
        assertEquals(2 | ofNumber.getValue() << 40, superblock.get("remote_settled"));
        assertEquals(0, superblock.get("remote_empty"));
        long slot = pool.getLong((int) slotAt);
        assertEquals(4, slot & 0xff);
        Structure value = new Structure(pool, (slot >>> 24) * 16, structure(5));
        assertEquals(32, value.length());
        assertEquals(Headers.VALUE, Headers.type(value.get("value_header")));
        Structure record = new Structure(pool, value.get("segment"), structure(6));
        assertEquals(32, record.length());
        assertEquals(Headers.SEGMENT, Headers.type(record.get("segment_header")));
        UUID id = new UUID(superblock.get("id_high"), superblock.get("id_low"));
        String name =
                "terrace-"
                        + id
                        + "-"
                        + HexFormat.of().toHexDigits(record.get("segment_number"))
                        + ".segment";
        ByteBuffer bytes =
                ByteBuffer.wrap(Objects.requireNonNull(segments.segments().get(name)))
                        .order(ByteOrder.LITTLE_ENDIAN);
        Structure segment = new Structure(bytes, 0, structure(7));
        assertEquals(64, segment.length());
        assertEquals("TERRSEGM", ascii(segment.get("segment_magic")));
        assertEquals(1, segment.get("segment_version"));
        assertEquals(2, segment.get("values"));
        assertEquals(id, new UUID(segment.get("owner_high"), segment.get("owner_low")));
        assertEquals(1, segment.get("number"));
        assertEquals(bytes.capacity(), segment.get("segment_bytes"));
        assertEquals(bytes.capacity(), record.get("bytes"));
        assertEquals(superblock.get("remote_bytes"), record.get("bytes"));
        assertEquals(superblock.get("remote_live"), record.get("live"));
        assertEquals(bytes.capacity() - 64, record.get("live"));
        assertEquals(segment.crc(segment.at("header_checksum")), segment.get("header_checksum"));
        int at = (int) value.get("place");
        assertEquals(13, value.get("length"));
        assertEquals(13, bytes.getInt(at));
        assertEquals("second of two", new String(bytes.array(), at + 8, 13, ISO_8859_1));
        CRC32C crc = new CRC32C();
        crc.update(bytes.array(), at + 8, 13);
        assertEquals(crc.getValue(), value.get("value_checksum"));
        assertEquals((int) crc.getValue(), bytes.getInt(at + 4));
    }

    @Test
    void aPlacementIsWhereThePageSays(@TempDir(factory = InMemory.class) Path dir)
            throws IOException {
        GoldenPool.extract(GoldenPool.Kept.VERSION_1, dir);
        try (Pool made = Pool.open(dir, GoldenPool.OPTIONS)) {
            made.place(
                    GoldenPool.CLASS, Map.of("string", List.of(StorageTier.SSD, StorageTier.PMEM)));
        }
        ByteBuffer pool = read(dir.resolve("pool"));
        Structure superblock = new Structure(pool, 0, structure(0));
        assertEquals(
                features(1, superblock.at("read_compatible")), superblock.get("read_compatible"));
        Structure link = new Structure(pool, superblock.get("placements"), structure(3));
        assertEquals(0, link.get("next"));
        assertEquals(0, link.get("value"));
        int key = (int) (link.get("key") >>> 24) * 16;
        ByteBuffer encoded =
                pool.slice(key + 16, (int) pool.getLong(key + 8)).order(ByteOrder.BIG_ENDIAN);
        assertEquals(GoldenPool.CLASS, utf(encoded));
        assertEquals(1, encoded.getInt());
        assertEquals("string", utf(encoded));
        assertEquals(
                List.of(2, 2, 1),
                List.of((int) encoded.get(), (int) encoded.get(), (int) encoded.get()));
        assertEquals(0, encoded.remaining());
    }

    /// A power cut while a pool becomes of this version leaves one of an earlier version or one of
    /// this.
    @Test
    void aPoolThatIsBeingUpgradedCanBeRead(@TempDir(factory = InMemory.class) Path dir)
            throws IOException {
        for (GoldenPool.Kept kept :
                List.of(
                        GoldenPool.Kept.VERSION_1,
                        GoldenPool.Kept.VERSION_2,
                        GoldenPool.Kept.VERSION_3)) {
            PoolOptions options = GoldenPool.extract(kept, dir);
            byte[] between = Files.readAllBytes(dir.resolve("pool"));
            Pool.open(dir, options).close();
            byte[] after = Files.readAllBytes(dir.resolve("pool"));
            assertEquals(Superblock.VERSION, after[8]);
            int at = (int) Superblock.COMPATIBLE_AT;
            for (int step = 0; step < 4; step++) {
                if (step < 3) {
                    System.arraycopy(after, at + 8 * step, between, at + 8 * step, 8);
                } else {
                    between[8] = (byte) Superblock.VERSION;
                }
                Files.write(dir.resolve("pool"), between);
                Pool.open(dir, options.toRead()).close();
                Pool.open(dir, options).close();
                byte[] finished = Files.readAllBytes(dir.resolve("pool"));
                assertTrue(Arrays.equals(after, 0, 64, finished, 0, 64), "it is finished");
                assertTrue(
                        Arrays.equals(after, at, at + 24, finished, at, at + 24),
                        "with its features");
            }
            between[40]++;
            Files.write(dir.resolve("pool"), between);
            assertThrows(PoolDamagedException.class, () -> Pool.open(dir, options));
        }
    }

    /// From a slot to the bytes of a checked value, on a disk and in persistent memory, by the page
    /// alone.
    @Test
    void aCheckedValueIsFoundByThePage(@TempDir(factory = InMemory.class) Path dir)
            throws IOException {
        List<Medium> tiers = List.of(Medium.SSD, Medium.PMEM);
        byte[] value = "a checked value".getBytes(ISO_8859_1);
        long slotsAt;
        try (Pool made =
                Pool.open(dir, PoolOptions.defaults().extents(1 << 20).withPmemChecksums())) {
            Store store = Heap.of(made).store();
            slotsAt =
                    store.transact(() -> {
                        long owner = store.allocate(32, Headers.BUFFER);
                        for (int i = 0; i < tiers.size(); i++) {
                            store.putWord(
                                    owner,
                                    owner + 8 + 8 * i,
                                    Heap.of(made).buffers().put(tiers.subList(i, i + 1), value));
                        }
                        return owner + 8;
                    });
        }
        ByteBuffer pool = read(dir.resolve("pool"));
        Structure superblock = new Structure(pool, 0, structure(0));
        assertEquals(features(6, superblock.at("incompatible")), superblock.get("incompatible"));
        for (int i = 0; i < tiers.size(); i++) {
            long slot = pool.getLong((int) slotsAt + 8 * i);
            assertEquals(13 + i, slot & 0xff);
            long at = (slot >>> 24) * 16;
            Structure front =
                    i == 0
                            ? new Structure(read(dir.resolve("disk-0")), at, structure(2))
                            : new Structure(pool, at + 8, structure(2));
            assertEquals(16, front.length());
            assertEquals(value.length, front.get("value_length"));
            CRC32C crc = new CRC32C();
            crc.update(value);
            assertEquals((int) crc.getValue(), (int) front.get("bytes_checksum"));
            long word = front.bytes.getLong(front.at("value_length"));
            assertEquals(mixed(mixed(word ^ superblock.get("secret")) ^ slot), front.get("seal"));
            byte[] found = new byte[value.length];
            front.bytes.get(front.at("value_length") + 16, found);
            assertTrue(Arrays.equals(value, found));
        }
    }

    private static long mixed(long n) {
        long b = (n ^ n >>> 33) * 0xff51afd7ed558ccdL;
        b = (b ^ b >>> 33) * 0xc4ceb9fe1a85ec53L;
        return b ^ b >>> 33;
    }

    /// From the superblock to an integer of an object, by the page alone.
    @Test
    void anObjectIsFoundByThePage(@TempDir(factory = InMemory.class) Path dir) throws IOException {
        GoldenPool.extract(GoldenPool.Kept.VERSION_1, dir);
        ByteBuffer pool = read(dir.resolve("pool"));
        Structure superblock = new Structure(pool, 0, structure(0));
        Map<String, Long> roots = new LinkedHashMap<>();
        long offset = superblock.get("roots");
        while (offset != 0) {
            Structure link = new Structure(pool, offset, structure(3));
            assertEquals(32, link.length());
            expectInUse(pool, superblock, offset, 0xffff);
            roots.put(text(pool, link.get("key")), link.get("value"));
            offset = link.get("next");
        }
        assertEquals(
                List.of("blank \u65e5", "thing 2", "thing 1", "thing 0", "extended", "old"),
                List.copyOf(roots.keySet()));
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
        assertEquals(
                ((offset ^ secret) * 0x9e3779b97f4a7c15L ^ secret) >>> 40,
                header >>> 40,
                "the mark");
        int map = (int) (Superblock.BYTES + superblock.get("log_bytes"));
        int chunks = (int) ((1L << superblock.get("extent_shift")) / 65536);
        int chunk = (int) (offset / 65536);
        long descriptor = pool.getLong(map + 8 * chunk);
        assertEquals(1, descriptor & 0xff, "cut into slots");
        int bytes =
                Integer.parseInt(
                        table("size class", "bytes", "slots")
                                .get((int) (descriptor >>> 32))
                                .get(1));
        assertEquals(0, offset % 65536 % bytes);
        int slot = (int) (offset % 65536) / bytes;
        long bits = pool.getLong(map + 8 * chunks + 256 * chunk + slot / 64 * 8);
        assertEquals(1, bits >>> slot % 64 & 1, "the slot is in use");
    }

    private static String utf(ByteBuffer encoded) {
        byte[] text = new byte[encoded.getShort()];
        encoded.get(text);
        return new String(text, ISO_8859_1);
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
        return bytes[0] == 0
                ? latin
                : new String(
                        bytes, 1, bytes.length - 1, java.nio.charset.StandardCharsets.UTF_16LE);
    }

    /// The comparison itself notices a page that is wrong.
    @Test
    void aWrongPageIsNoticed() {
        List<List<String>> right = table("size class", "bytes", "slots");
        String changed = page.replace("| 5 | 112 | 585 |", "| 5 | 112 | 586 |");
        assertNotEquals(page, changed);
        assertNotEquals(right, tables(changed, List.of("size class", "bytes", "slots")).getFirst());
        assertEquals(
                8,
                tables(page, FIELDS).size(),
                "superblock, log, checked value, link, label, value, segment, a segment's begin");
    }
}
