package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// The bytes of a manifest, as TABLE-FORMAT.md has them.
class ManifestTest {
    private static final String JSON =
            """
            {"number":7,"kind":"table","type":"{\\"type\\":\\"struct\\",\\"fields\\":[]}",\
            "options":{"tier.image":"DISK"},"parts":[\
            {"name":"job-0-1","pmem":null,"disk":"/disk","hosts":["a","b"],\
            "rows":3,"bytes":4096,"columns":[\
            {"nulls":1,"bytes":24,"min":"gAAAAAAAAAE=","max":"gAAAAAAAAAI="},\
            {"nulls":3,"bytes":0,"min":null,"max":null}]}]}\
            """;
    private static final String VERSION_1 = "terrace-manifest 1 cc16f13d\n" + JSON;
    private static final String GOLDEN = "terrace-manifest 2 f0cb2877\n" + JSON;

    private static final String WITH_DELETIONS =
            "terrace-manifest 3 7c758e02\n"
                    + JSON.replace(
                            "}]}]}",
                            "}],\"deletions\":{\"file\":\"other\",\"from\":16,\"bytes\":18,"
                                    + "\"crc\":\"0a1b2c3d\",\"rows\":2}}]}");

    /// Decodes a manifest without lists.
    private static Manifest decode(String name, byte[] bytes) {
        try {
            Storage none = Storage.of("/none", new Configuration(false));
            return Manifest.decode(name, bytes, new PartLists(none));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Manifest manifest() {
        ColumnSummary numbers = new ColumnSummary(1, 24, OrderKeys.ofLong(1), OrderKeys.ofLong(2));
        ColumnSummary nulls = new ColumnSummary(3, 0, null, null);
        Part part =
                new Part(
                        "job-0-1",
                        null,
                        "/disk",
                        List.of("a", "b"),
                        3,
                        4096,
                        List.of(numbers, nulls));
        return new Manifest(
                7,
                Manifest.TABLE,
                "{\"type\":\"struct\",\"fields\":[]}",
                Map.of("tier.image", "DISK"),
                List.of(part));
    }

    @Test
    void itsBytesAreThoseOfTheSpecification() {
        assertEquals(GOLDEN, new String(manifest().encode(), StandardCharsets.UTF_8));
    }

    @Test
    void itIsOfALaterVersionWithDeletions() {
        Manifest all = manifest();
        Part some = all.parts().getFirst().with(new Deletions("other", 16, 18, "0a1b2c3d", 2));
        Manifest manifest =
                new Manifest(7, Manifest.TABLE, all.type(), all.options(), List.of(some));
        assertEquals(WITH_DELETIONS, new String(manifest.encode(), StandardCharsets.UTF_8));
        Manifest read = decode("m", WITH_DELETIONS.getBytes(StandardCharsets.UTF_8));
        assertEquals(some.deletions(), read.parts().getFirst().deletions());
        assertEquals(1, read.rows());
        assertEquals(Set.of("job-0-1", "other"), read.names());
    }

    @Test
    void itIsOfALaterVersionWithEpochsOfStreams() {
        String golden =
                "terrace-manifest 5 58d8f95b\n"
                        + "{\"number\":7,\"kind\":\"table\",\"type\":\"{}\",\"options\":{},"
                        + "\"parts\":[],\"streams\":{\"one\":3,\"two\":0}}";
        Manifest manifest =
                new Manifest(7, Manifest.TABLE, "{}", Map.of(), List.of())
                        .withEpoch("two", 0)
                        .withEpoch("one", 3);
        assertEquals(golden, new String(manifest.encode(), StandardCharsets.UTF_8));
        Manifest read = decode("m", golden.getBytes(StandardCharsets.UTF_8));
        assertEquals(manifest, read);
        assertTrue(read.hasEpoch("one", 3) && read.hasEpoch("one", 2));
        assertFalse(read.hasEpoch("one", 4) || read.hasEpoch("three", 0));
        assertEquals(manifest.streams(), read.next(List.of()).streams());
    }

    @Test
    void itIsOfALaterVersionIfItOnlyWritesRowsAnew() {
        String golden =
                "terrace-manifest 6 8e493406\n"
                        + "{\"number\":7,\"kind\":\"table\",\"type\":\"{}\",\"options\":{},"
                        + "\"parts\":[],\"streams\":{\"one\":3},\"rewrites\":true}";
        Manifest manifest =
                new Manifest(6, Manifest.TABLE, "{}", Map.of(), List.of())
                        .withEpoch("one", 3)
                        .rewritten(List.of());
        assertEquals(golden, new String(manifest.encode(), StandardCharsets.UTF_8));
        Manifest read = decode("m", golden.getBytes(StandardCharsets.UTF_8));
        assertEquals(manifest, read);
        assertTrue(read.rewrites() && read.withEpoch("two", 1).rewrites());
        assertFalse(read.next(List.of()).rewrites(), "each commit says so of itself");
    }

    @Test
    void itIsOfALaterVersionWithPartitionsOrNestedColumns() {
        StructType schema = new StructType().add("a", DataTypes.LongType);
        String type = schema.json().replace("\"", "\\\"");
        String json =
                "{\"number\":7,\"kind\":\"table\",\"type\":\""
                        + type
                        + "\",\"options\":{},\"parts\":[],\"partitioning\":[\"a\"]}";
        Manifest manifest =
                Manifest.ofTable(7, new TableColumns(schema, List.of("a")), Map.of(), List.of());
        String text = new String(manifest.encode(), StandardCharsets.UTF_8);
        assertEquals("terrace-manifest 7 7bd88cc9\n" + json, text);
        assertEquals(manifest, decode("m", manifest.encode()));
        assertEquals(manifest.partitioning(), manifest.next(List.of()).partitioning());
        Manifest rewritten = manifest.rewritten(List.of()).withEpoch("one", 3);
        assertTrue(rewritten.rewrites());
        assertEquals(manifest.partitioning(), rewritten.partitioning());
        assertEquals(7, version(rewritten));
        assertEquals(rewritten, decode("m", rewritten.encode()));
        for (StructType nested :
                List.of(
                        schema.add("b", schema),
                        schema.add("b", DataTypes.createArrayType(schema)),
                        schema.add(
                                "b",
                                DataTypes.createMapType(DataTypes.LongType, DataTypes.LongType)))) {
            assertEquals(7, version(nested), nested::json);
        }
        assertEquals(2, version(schema.add("\"type\":\"map\"", DataTypes.LongType)));
        assertEquals(2, version(schema.add("b", DataTypes.createArrayType(DataTypes.LongType))));
    }

    private static int version(StructType schema) {
        return version(new Manifest(1, Manifest.TABLE, schema.json(), Map.of(), List.of()));
    }

    private static int version(Manifest manifest) {
        String text = new String(manifest.encode(), StandardCharsets.UTF_8);
        return Integer.parseInt(text.replaceFirst("\\S+ (\\d+) [^\0]*", "$1"));
    }

    @Test
    void optionsAreInTheOrderOfTheirNames() {
        Map<String, String> options =
                Map.of("tier.b", "DISK", "extent", "1048576", "tier.a", "PMEM");
        String text =
                new String(
                        new Manifest(1, Manifest.TABLE, "{}", options, List.of()).encode(),
                        StandardCharsets.UTF_8);
        assertTrue(
                text.contains("{\"extent\":\"1048576\",\"tier.a\":\"PMEM\",\"tier.b\":\"DISK\"}"),
                text);
    }

    @ParameterizedTest
    @ValueSource(strings = {VERSION_1, GOLDEN})
    void whatWasWrittenIsRead(String golden) {
        Manifest read = decode("m", golden.getBytes(StandardCharsets.UTF_8));
        assertEquals(Arrays.toString(manifest().encode()), Arrays.toString(read.encode()));
        assertEquals(3, read.rows());
        assertEquals(4096, read.bytes());
    }

    @Test
    void eachByteThatIsDamagedIsNoticed() {
        byte[] bytes = manifest().encode();
        for (int i = 0; i < bytes.length; i++) {
            byte[] damaged = bytes.clone();
            damaged[i] ^= 1;
            RuntimeException refused =
                    assertThrows(
                            RuntimeException.class, () -> decode("the file", damaged), "byte " + i);
            assertTrue(
                    refused instanceof PoolDamagedException
                            || refused instanceof PoolFormatException,
                    refused::toString);
            assertTrue(refused.getMessage().startsWith("the file"), refused::getMessage);
        }
        assertThrows(PoolDamagedException.class, () -> decode("m", new byte[0]));
    }

    @Test
    void aLaterVersionIsRefusedAsThat() {
        byte[] later = GOLDEN.replaceFirst(" 2 ", " 4 ").getBytes(StandardCharsets.UTF_8);
        assertTrue(
                assertThrows(PoolFormatException.class, () -> decode("m", later))
                        .getMessage()
                        .contains("version 4"));
    }

    private static PartStore store(Path dir) throws IOException {
        Configuration configuration = new Configuration(false);
        Storage root = Storage.of(dir.toString(), configuration);
        return new PartStore(root, PartitionOptions.defaults(), configuration);
    }

    @Test
    void aTableMayHaveMoreRowsThanAnIntCounts(@TempDir Path dir) throws IOException {
        PartStore store = store(dir);
        List<Part> parts =
                Stream.of("a", "b", "c")
                        .map(name -> new Part(name, null, null, List.of(), 1L << 31, 1, List.of()))
                        .toList();
        String schema = new StructType().json();
        Manifest manifest = new Manifest(1, Manifest.TABLE, schema, Map.of(), parts);
        assertEquals(
                parts.size(),
                new TableScanBuilder("table", manifest, store, 1)
                        .build()
                        .toBatch()
                        .planInputPartitions()
                        .length);
    }

    @Test
    void tasksAreNotSentWhatTheManifestKnowsOfColumns(@TempDir Path dir) throws IOException {
        StructType schema =
                new StructType().add("a", DataTypes.LongType).add("b", DataTypes.LongType);
        Manifest manifest =
                new Manifest(1, Manifest.TABLE, schema.json(), Map.of(), manifest().parts());
        PartStore store = store(dir);
        TableScan scan =
                new TableScan("table", manifest, store, schema, List.of(), Integer.MAX_VALUE, 10);
        InputPartition[] inputs = scan.planInputPartitions();
        assertEquals(3, inputs.length, "24 bytes in tasks of 10");
        Part sent = ((PartsInput) inputs[0]).parts().getFirst().part();
        assertEquals(List.of(), sent.columns());
        assertEquals(manifest.parts().getFirst().name(), sent.name());
    }
}
