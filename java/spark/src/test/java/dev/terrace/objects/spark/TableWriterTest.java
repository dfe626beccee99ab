package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.Map;
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

    @Test
    void aBlockOfManyColumnsEndsAfterSixteenMebibytes() throws IOException {
        StructType schema = new StructType();
        for (int i = 0; i < 50; i++) {
            schema = schema.add("column" + i, DataTypes.BinaryType);
        }
        Configuration configuration = new Configuration(false);
        TableOptions options = TableOptions.of(Map.of(), Map.of());
        PartStore store =
                new PartStore(
                        Storage.of(dir.toString(), configuration),
                        options.partitions(),
                        configuration);
        BlockLayout layout = new BlockLayout(schema, options::tierOf);
        WriterCommitMessage nothing = new WriterCommitMessage() {};
        try (TableWriter writer =
                new TableWriter(store, "part", options.blockRows(), layout, _ -> nothing)) {
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
