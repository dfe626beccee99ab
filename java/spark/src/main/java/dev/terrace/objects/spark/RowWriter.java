package dev.terrace.objects.spark;

import com.esotericsoftware.kryo.DefaultSerializer;
import com.esotericsoftware.kryo.serializers.JavaSerializer;
import java.io.IOException;
import java.io.Serial;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.roaringbitmap.RoaringBitmap;

/// The changes that an attempt of a task makes: rows that it adds go to parts of its own, and of
/// those that it deletes the driver is sent the numbers. So an attempt that does not count has
/// deleted nothing.
final class RowWriter implements DeltaWriter<InternalRow> {
    private final TableWriter added;
    private final Map<Integer, RoaringBitmap> deleted;

    /// The message of a writer to the driver.
    ///
    /// @param added parts with the rows that were added
    /// @param deleted encoded numbers of rows, by the number of their part in the manifest
    @DefaultSerializer(JavaSerializer.class)
    record Changed(List<Part> added, Map<Integer, byte[]> deleted) implements WriterCommitMessage {
        @Serial private static final long serialVersionUID = 1L;
    }

    private RowWriter(TableWriter added, Map<Integer, RoaringBitmap> deleted) {
        this.added = added;
        this.deleted = deleted;
    }

    /// A writer of an attempt.
    static RowWriter of(TableWrite.WriterFactory factory, int partition, long task) {
        Map<Integer, RoaringBitmap> deleted = new HashMap<>();
        TableWriter added =
                factory.createWriter(
                        partition, task, parts -> new Changed(parts, encoded(deleted)));
        return new RowWriter(added, deleted);
    }

    private static Map<Integer, byte[]> encoded(Map<Integer, RoaringBitmap> rows) {
        Map<Integer, byte[]> all = new HashMap<>();
        rows.forEach((part, of) -> all.put(part, DeletionFiles.encode(of)));
        return all;
    }

    @Override
    public void delete(InternalRow metadata, InternalRow id) {
        long row = id.getLong(0);
        deleted.computeIfAbsent(RowIds.part(row), _ -> new RoaringBitmap()).add(RowIds.row(row));
    }

    @Override
    public void update(InternalRow metadata, InternalRow id, InternalRow row) throws IOException {
        delete(metadata, id);
        insert(row);
    }

    @Override
    public void insert(InternalRow row) throws IOException {
        added.write(row);
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
        return added.commit();
    }

    @Override
    public void abort() {
        added.abort();
    }

    @Override
    public void close() {
        added.close();
    }
}
