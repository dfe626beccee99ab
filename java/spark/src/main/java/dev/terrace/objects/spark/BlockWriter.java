package dev.terrace.objects.spark;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import java.io.IOException;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.jspecify.annotations.Nullable;

/// Writes rows as blocks of a part. The pool is made when the first block is complete.
final class BlockWriter {
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
    private final ObjectType<DurableRecord> type;
    private final List<ColumnWriter> columns;
    private @Nullable PartWriter part;
    private int blockRows;
    private long rows;

    /// @param name of the part
    /// @param rowsMax rows of a block
    BlockWriter(PartStore store, String name, int rowsMax, BlockLayout layout) {
        this.store = store;
        this.name = name;
        this.rowsMax = rowsMax;
        type = layout.type();
        columns = layout.columns().stream().map(ColumnWriter::new).toList();
    }

    void write(InternalRow row) throws IOException {
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

    /// Finishes the part, which has a row at least.
    Part finish() throws IOException {
        if (blockRows > 0) {
            store();
        }
        return part().finish(rows, columns.stream().map(ColumnWriter::summary).toList());
    }

    /// Removes what was written.
    void abandon() {
        if (part != null) {
            part.abandon();
        }
    }
}
