package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Pool;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.function.IntFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class TableWriterTest {
    @TempDir private Path dir;

    private PartStore store(TableOptions options) throws IOException {
        Configuration configuration = new Configuration(false);
        return new PartStore(
                Storage.of(dir.toString(), configuration), options.partitions(), configuration);
    }

    /// Writes a part of so many rows, as a task does.
    static Part write(
            PartStore store,
            StructType schema,
            TableOptions options,
            int rows,
            IntFunction<InternalRow> row)
            throws IOException {
        List<Part> written = new ArrayList<>();
        WriterCommitMessage message = new WriterCommitMessage() {};
        try (TableWriter writer =
                new TableWriter(
                        store,
                        "part",
                        new TableColumns(schema, List.of()),
                        options,
                        parts -> {
                            written.addAll(parts);
                            return message;
                        })) {
            for (int i = 0; i < rows; i++) {
                writer.write(row.apply(i));
            }
            writer.commit();
        }
        assertEquals(1, written.size());
        return written.getFirst();
    }

    /// Columns of numbers fill what they take of persistent memory.
    @Test
    void numbersTakeLittleMoreThanTheirBytes() throws IOException {
        StructType schema =
                new StructType()
                        .add("byte", DataTypes.ByteType)
                        .add("short", DataTypes.ShortType)
                        .add("int", DataTypes.IntegerType)
                        .add("long", DataTypes.LongType)
                        .add("float", DataTypes.FloatType)
                        .add("double", DataTypes.DoubleType);
        TableOptions options = TableOptions.of(Map.of(), Map.of());
        int rows = 100_000;
        Part part =
                write(
                        store(options),
                        schema,
                        options,
                        rows,
                        i ->
                                new GenericInternalRow(
                                        new Object[] {
                                            (byte) i, (short) i, i, (long) i, (float) i, (double) i
                                        }));
        double raw = (1.0 + 2 + 4 + 8 + 4 + 8) * rows;
        double ratio = part.bytes() / raw;
        assertTrue(ratio < 1.05, () -> "times their bytes: " + ratio);
        // A pool that stays open for many tasks keeps something for each class that it meets.
        try (Pool pool = store(options).open(part)) {
            assertSame(
                    BlockLayout.of(schema).storedType(pool, "part"),
                    BlockLayout.of(schema).storedType(pool, "part"));
        }
    }

    @Test
    void aBlockOfManyColumnsEndsAfterSixteenMebibytes() throws IOException {
        StructType schema = new StructType();
        for (int i = 0; i < 50; i++) {
            schema = schema.add("column" + i, DataTypes.BinaryType);
        }
        TableOptions options = TableOptions.of(Map.of(), Map.of());
        WriterCommitMessage nothing = new WriterCommitMessage() {};
        try (TableWriter writer =
                new TableWriter(
                        store(options),
                        "part",
                        new TableColumns(schema, List.of()),
                        options,
                        _ -> nothing)) {
            InternalRow row =
                    new GenericInternalRow(Collections.nCopies(50, new byte[100_000]).toArray());
            int rows = 0;
            while (!Files.exists(dir.resolve("parts").resolve("part"))) {
                writer.write(row);
                rows++;
            }
            assertEquals(4, rows);
            writer.abort();
        }
        assertFalse(Files.exists(dir.resolve("parts").resolve("part")));
    }
}
