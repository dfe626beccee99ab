package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.TerraceException;
import dev.terrace.objects.WrongBlocks;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayBasedMapData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Reading a table's part whose device gives [WrongBlocks] gives the stored rows, or an exception
/// of this library's.
///
/// In persistent memory numbers and slots of a block have no checksum. There a row may get a value
/// of another, or none; never what nobody has stored, nor another number of rows.
class WrongPartsTest {
    private static final StructType PLACE =
            new StructType().add("x", DataTypes.IntegerType).add("name", DataTypes.StringType);
    private static final StructType SCHEMA =
            new StructType()
                    .add("id", DataTypes.LongType)
                    .add("name", DataTypes.StringType)
                    .add("note", DataTypes.StringType)
                    .add("number", DataTypes.IntegerType)
                    .add("big", DataTypes.createDecimalType(30, 0))
                    .add("tags", DataTypes.createArrayType(DataTypes.StringType))
                    .add("place", PLACE)
                    .add(
                            "codes",
                            DataTypes.createMapType(DataTypes.IntegerType, DataTypes.StringType));
    private static final Map<String, String> OPTIONS =
            Map.of(
                    "tier.default",
                    "DISK",
                    "tier.note",
                    "PMEM",
                    "tier.big",
                    "PMEM",
                    "extent",
                    "1048576",
                    "block.rows",
                    "200");
    private static final int ROWS = 1900;

    @TempDir private Path dir;

    private static InternalRow row(int i) {
        boolean isNull = i % 7 == 0;
        return new GenericInternalRow(
                new @Nullable Object[] {
                    (long) i,
                    text("name " + i),
                    isNull ? null : text("note of row " + i),
                    isNull ? null : i * 3,
                    isNull ? null : Decimal.apply("1234567890123456789" + i),
                    isNull
                            ? null
                            : new GenericArrayData(
                                    new Object[] {text("tag " + i), text("tag " + i * i)}),
                    isNull
                            ? null
                            : new GenericInternalRow(new Object[] {i * 5, text("place " + i)}),
                    isNull
                            ? null
                            : new ArrayBasedMapData(
                                    new GenericArrayData(new Object[] {i, -i}),
                                    new GenericArrayData(
                                            new Object[] {text("code " + i), text("none " + i)}))
                });
    }

    private static UTF8String text(String text) {
        return UTF8String.fromString(text);
    }

    /// The values of a row, one text each; of structs and maps one for each field that has values.
    private static List<String> values(InternalRow row) {
        List<String> values = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            values.add(String.valueOf(row.isNullAt(i) ? null : value(row, i)));
        }
        InternalRow place = row.isNullAt(6) ? null : row.getStruct(6, PLACE.size());
        values.add(place == null || place.isNullAt(0) ? "null" : "" + place.getInt(0));
        values.add(place == null || place.isNullAt(1) ? "null" : "" + place.getUTF8String(1));
        MapData codes = row.isNullAt(7) ? null : row.getMap(7);
        values.add(
                codes == null
                        ? "null"
                        : Arrays.toString(codes.keyArray().toObjectArray(DataTypes.IntegerType)));
        values.add(
                codes == null
                        ? "null"
                        : Arrays.toString(codes.valueArray().toObjectArray(DataTypes.StringType)));
        return values;
    }

    private static Object value(InternalRow row, int column) {
        return switch (column) {
            case 0 -> row.getLong(column);
            case 3 -> row.getInt(column);
            case 4 -> row.getDecimal(column, 30, 0);
            case 5 -> Arrays.toString(row.getArray(column).toObjectArray(DataTypes.StringType));
            default -> new String(row.getUTF8String(column).getBytes(), StandardCharsets.UTF_8);
        };
    }

    private PartStore store() throws IOException {
        Configuration configuration = new Configuration(false);
        PartitionOptions partitions = TableOptions.of(OPTIONS, Map.of()).partitions();
        return new PartStore(Storage.of(dir.toString(), configuration), partitions, configuration);
    }

    private Part write() throws IOException {
        TableOptions options = TableOptions.of(OPTIONS, Map.of());
        return TableWriterTest.write(store(), SCHEMA, options, ROWS, WrongPartsTest::row);
    }

    /// All rows of a part; null: it is refused.
    private @Nullable List<List<String>> read(Part part) throws IOException {
        var factory =
                new BlockReader.Factory(store(), SCHEMA, SCHEMA, List.of(), Integer.MAX_VALUE);
        List<List<String>> rows = new ArrayList<>();
        try (BlockReader reader = factory.open(new TableScan.PartInput(part, 0, 0, 1, 0))) {
            while (reader.next()) {
                reader.get().rowIterator().forEachRemaining(row -> rows.add(values(row)));
            }
        } catch (TerraceException refused) {
            return null;
        }
        return rows;
    }

    private WrongBlocks blocks(String file) throws IOException {
        return new WrongBlocks(dir.resolve("parts").resolve("part").resolve(file), new byte[0]);
    }

    @Test
    void whatADiskGivesIsRightOrRefused() throws IOException {
        Part part = write();
        List<List<String>> right = IntStream.range(0, ROWS).mapToObj(i -> values(row(i))).toList();
        assertEquals(right, read(part));
        int[] refused = {0};
        blocks("disk-0")
                .forEach(what -> {
                    List<List<String>> rows = read(part);
                    refused[0] += rows == null ? 1 : 0;
                    assertTrue(
                            rows == null || rows.equals(right),
                            () -> what + " shows rows that are none: " + difference(right, rows));
                });
        assertTrue(refused[0] > WrongBlocks.TRIALS / 5, refused[0] + " were noticed");
        assertEquals(right, read(part));
    }

    private static String difference(List<List<String>> right, List<List<String>> rows) {
        return IntStream.range(0, Math.min(right.size(), rows.size()))
                .filter(i -> !rows.get(i).equals(right.get(i)))
                .mapToObj(i -> rows.get(i) + ", not " + right.get(i))
                .findFirst()
                .orElse(rows.size() + " rows");
    }

    @Test
    void whatPersistentMemoryGivesWasStored() throws IOException {
        Part part = write();
        List<Set<String>> stored = new ArrayList<>();
        for (int column = 0; column < values(row(0)).size(); column++) {
            stored.add(new HashSet<>(List.of("null", "", "0", "[]")));
        }
        IntStream.range(0, ROWS).forEach(i -> addAll(stored, values(row(i))));
        int[] refused = {0};
        blocks("pool")
                .forEach(what -> {
                    List<List<String>> rows = read(part);
                    refused[0] += rows == null ? 1 : 0;
                    assertTrue(rows == null || rows.size() == ROWS, what);
                    for (List<String> row : rows == null ? List.<List<String>>of() : rows) {
                        for (int column = 0; column < row.size(); column++) {
                            assertTrue(
                                    stored.get(column).contains(row.get(column)),
                                    what + " shows what nobody has stored: " + row);
                        }
                    }
                });
        assertTrue(refused[0] > WrongBlocks.TRIALS / 5, refused[0] + " were noticed");
    }

    private static void addAll(List<Set<String>> stored, List<String> row) {
        for (int column = 0; column < row.size(); column++) {
            stored.get(column).add(row.get(column));
        }
    }
}
