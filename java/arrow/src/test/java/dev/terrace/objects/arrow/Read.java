package dev.terrace.objects.arrow;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.channels.Channels;
import java.nio.channels.SeekableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.complex.StructVector;
import org.apache.arrow.vector.ipc.ArrowFileReader;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.arrow.vector.util.Text;

/// What Arrow's own readers find.
///
/// @param batches rows, each with its values by the names of the columns
record Read(Schema schema, List<List<Map<String, Object>>> batches) {
    static Read file(Path file) throws IOException {
        try (BufferAllocator allocator = new RootAllocator();
                SeekableByteChannel in = Files.newByteChannel(file);
                ArrowReader reader = new ArrowFileReader(in, allocator)) {
            return all(reader);
        }
    }

    static Read stream(byte[] bytes) throws IOException {
        try (BufferAllocator allocator = new RootAllocator();
                ArrowReader reader =
                        new ArrowStreamReader(
                                Channels.newChannel(new ByteArrayInputStream(bytes)), allocator)) {
            return all(reader);
        }
    }

    static Read export(ArrowExport export) throws IOException {
        try (BufferAllocator allocator = new RootAllocator();
                ArrowReader reader = export.reader(allocator)) {
            return all(reader);
        }
    }

    private static Read all(ArrowReader reader) throws IOException {
        List<List<Map<String, Object>>> batches = new ArrayList<>();
        VectorSchemaRoot root = reader.getVectorSchemaRoot();
        while (reader.loadNextBatch() && root.getRowCount() > 0) {
            batches.add(rows(root));
        }
        return new Read(root.getSchema(), batches);
    }

    /// The rows of a batch.
    static List<Map<String, Object>> rows(VectorSchemaRoot root) {
        List<Map<String, Object>> rows = new ArrayList<>();
        for (int i = 0; i < root.getRowCount(); i++) {
            rows.add(values(root.getFieldVectors(), i));
        }
        return rows;
    }

    private static Map<String, Object> values(List<FieldVector> vectors, int row) {
        Map<String, Object> values = new LinkedHashMap<>();
        for (FieldVector vector : vectors) {
            values.put(vector.getName(), value(vector, row));
        }
        return values;
    }

    private static Object value(FieldVector vector, int row) {
        if (vector instanceof StructVector struct) {
            return struct.isNull(row) ? null : values(struct.getChildrenFromFields(), row);
        }
        return switch (vector.getObject(row)) {
            case null -> null;
            case Text text -> text.toString();
            case byte[] bytes -> "bytes " + Arrays.toString(bytes);
            case List<?> list -> new ArrayList<>(list);
            case Object other -> other;
        };
    }

    List<Map<String, Object>> rows() {
        return batches.stream().flatMap(List::stream).toList();
    }

    List<Integer> sizes() {
        return batches.stream().map(List::size).toList();
    }

    List<Object> column(String name) {
        return rows().stream().map(row -> row.get(name)).toList();
    }
}
