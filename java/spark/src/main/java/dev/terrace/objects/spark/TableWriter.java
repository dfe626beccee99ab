package dev.terrace.objects.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.jspecify.annotations.Nullable;

/// Writes the rows of an attempt of a task: a part, or, of a table with partitions, a part for each
/// stretch of rows of the same partition. Spark sorts rows by their partitions first
/// ([ClusteredWrite]), so these are few, and one is open at a time.
final class TableWriter implements DataWriter<InternalRow> {
    private final PartStore store;
    private final String name;
    private final int rowsMax;
    private final BlockLayout layout;
    private final boolean hasPartitions;
    private final RowPartition partition;
    private final Function<List<Part>, WriterCommitMessage> message;

    /// Those that are finished.
    private final List<Part> parts = new ArrayList<>();

    private @Nullable BlockWriter current;

    /// @param name the beginning of the names of parts, which no other attempt has
    /// @param options the tiers of columns, and how many rows a block has
    TableWriter(
            PartStore store,
            String name,
            TableColumns columns,
            TableOptions options,
            Function<List<Part>, WriterCommitMessage> message) {
        this.store = store;
        this.name = name;
        this.message = message;
        rowsMax = options.blockRows();
        layout = new BlockLayout(columns.schema(), options::tierOf);
        hasPartitions = !columns.partitioning().isEmpty();
        partition = new RowPartition(columns);
    }

    @Override
    public void write(InternalRow row) throws IOException {
        if (hasPartitions && partition.moves(row)) {
            finish();
            partition.go(row);
        }
        if (current == null) {
            String part = hasPartitions ? name + "-" + parts.size() : name;
            current = new BlockWriter(store, part, rowsMax, layout);
        }
        current.write(row);
    }

    private void finish() throws IOException {
        if (current != null) {
            Part part = current.finish();
            parts.add(part.withColumns(partition.summaries(part.columns())));
            current = null;
        }
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
        finish();
        return message.apply(List.copyOf(parts));
    }

    /// Files that cannot be removed are left to the driver, so that a second failure does not hide
    /// why the attempt failed.
    @Override
    public void abort() {
        if (current != null) {
            current.abandon();
        }
        for (Part part : parts) {
            try {
                store.delete(part);
            } catch (IOException left) {
                // As said above.
            }
        }
    }

    @Override
    public void close() {
        // Either of the two above has.
    }
}
