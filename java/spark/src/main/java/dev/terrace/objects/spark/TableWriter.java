package dev.terrace.objects.spark;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import java.io.IOException;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.jspecify.annotations.Nullable;

/// Writes the rows of an attempt of a task as blocks of a part. The pool is made when the first
/// block is complete.
final class TableWriter implements DataWriter<InternalRow> {
    /// A block ends when a column of it has so many bytes, so that eight of them fill an extent of
    /// the default size.
    private static final long COLUMN_BYTES = (512 << 10) - 64;

    /// A block ends when all its columns together have so many: a task keeps a block in memory.
    private static final long BLOCK_BYTES = 16 << 20;

    /// Of an extent, what no value has.
    private static final long EXTENT_FRONT_BYTES = 256 << 10;

    private final PartStore store;
    private final String name;
    private final int rowsMax;
    private final Function<@Nullable Part, WriterCommitMessage> message;
    private final ObjectType<DurableRecord> type;
    private final List<ColumnWriter> columns;
    private @Nullable PartWriter part;
    private int blockRows;
    private long rows;

    TableWriter(
            PartStore store,
            String name,
            int rowsMax,
            BlockLayout layout,
            Function<@Nullable Part, WriterCommitMessage> message) {
        this.store = store;
        this.name = name;
        this.message = message;
        this.rowsMax = rowsMax;
        type = layout.type();
        columns = layout.columns().stream().map(ColumnWriter::new).toList();
    }

    @Override
    public void write(InternalRow row) throws IOException {
        long longest = 0;
        long all = 0;
        for (int i = 0; i < columns.size(); i++) {
            ColumnWriter column = columns.get(i);
            column.add(row, i);
            longest = Math.max(longest, column.longestBytes());
            all += column.blockBytes();
        }
        if (longest > store.options().extentBytes() - EXTENT_FRONT_BYTES) {
            throw new IllegalArgumentException(
                    "a row of "
                            + longest
                            + " bytes in one column: no value may be longer than "
                            + (store.options().extentBytes() - EXTENT_FRONT_BYTES - COLUMN_BYTES)
                            + " with files that grow by "
                            + store.options().extentBytes()
                            + " bytes: set the option extent to a larger power of two");
        }
        blockRows++;
        if (blockRows == rowsMax || longest >= COLUMN_BYTES || all >= BLOCK_BYTES) {
            store();
        }
    }

    private void store() throws IOException {
        Pool pool = part().pool();
        pool.transact(() -> {
            DurableRecord block = pool.create(type);
            block.setInt(BlockLayout.ROWS, blockRows);
            columns.forEach(column -> column.store(block));
        });
        rows += blockRows;
        blockRows = 0;
    }

    private PartWriter part() throws IOException {
        if (part == null) {
            part = store.create(name);
        }
        return part;
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
        if (blockRows > 0) {
            store();
        }
        if (part == null) {
            return message.apply(null);
        }
        return message.apply(
                part.finish(rows, columns.stream().map(ColumnWriter::summary).toList()));
    }

    @Override
    public void abort() {
        if (part != null) {
            part.abandon();
        }
    }

    @Override
    public void close() {
        // Either of the two above has.
    }
}
