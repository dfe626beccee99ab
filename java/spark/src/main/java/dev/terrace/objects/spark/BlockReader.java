package dev.terrace.objects.spark;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDamagedException;
import java.io.IOException;
import java.io.Serial;
import java.io.UncheckedIOException;
import java.util.Arrays;
import java.util.List;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.jspecify.annotations.Nullable;

/// Reads the blocks of a part, one batch each.
///
/// Invariant: who reads a part to its end has met as many rows as the manifest says: none is lost
/// with a block.
final class BlockReader implements PartitionReader<ColumnarBatch>, BlockFilter.Facts {
    private final Pool pool;
    private final TableScan.PartInput input;
    private final BlockLayout layout;
    private final List<BlockFilter> filters;
    private final Cursor<DurableRecord> cursor;
    private final DurableRecord block;
    private final BlockVector[] vectors;
    private final ColumnarBatch batch;
    private final int[] columns;

    /// Rows of the blocks so far.
    private long walked;

    private long met;
    private long left;
    private long read;
    private long skipped;

    /// Makes readers on executors.
    ///
    /// @param columns the numbers of those that are wanted
    record Factory(
            PartStore store, StructType schema, int[] columns, List<BlockFilter> filters, int limit)
            implements ColumnarFactory {
        @Serial private static final long serialVersionUID = 1L;

        @Override
        public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
            try {
                TableScan.PartInput input = (TableScan.PartInput) partition;
                Pool pool = store.open(input.part());
                boolean done = false;
                try {
                    BlockReader reader = new BlockReader(pool, input, this);
                    done = true;
                    return reader;
                } finally {
                    if (!done) {
                        pool.close();
                    }
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }
    }

    private BlockReader(Pool pool, TableScan.PartInput input, Factory query) {
        this.pool = pool;
        this.input = input;
        filters = query.filters;
        columns = query.columns;
        layout = BlockLayout.of(query.schema);
        cursor = pool.cursor(layout.storedType(pool, input.part().name()));
        block = cursor.get();
        vectors =
                Arrays.stream(query.columns)
                        .mapToObj(column -> new BlockVector(layout.column(column)))
                        .toArray(BlockVector[]::new);
        batch = new ColumnarBatch(vectors.clone());
        left = query.limit;
    }

    @Override
    public boolean next() {
        while (left > 0 && nextBlock()) {
            if (met++ % input.shares() != input.share()) {
                continue;
            }
            if (filters.stream().allMatch(filter -> filter.mayMatch(this))) {
                read++;
                int rows = (int) Math.min(left, rows());
                for (int i = 0; i < vectors.length; i++) {
                    vectors[i].lead(block, (int) rows(), (int) nulls(columns[i]));
                }
                batch.setNumRows(rows);
                left -= rows;
                return true;
            }
            skipped++;
        }
        return false;
    }

    /// Goes to the next block of the part, whoever's share it is.
    private boolean nextBlock() {
        boolean isThere = cursor.next();
        walked += isThere ? rows() : 0;
        long all = input.part().rows();
        if (isThere ? rows() < 1 || walked > all : walked != all) {
            throw new PoolDamagedException(
                    "part "
                            + input.part().name()
                            + " is damaged: its blocks have "
                            + walked
                            + (isThere ? " rows at least" : " rows")
                            + ", and the manifest says "
                            + all);
        }
        return isThere;
    }

    @Override
    public ColumnarBatch get() {
        return batch;
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
        return BlockMetrics.of(read, skipped);
    }

    @Override
    public long rows() {
        return block.getInt(BlockLayout.ROWS);
    }

    @Override
    public long nulls(int column) {
        return block.getInt(layout.column(column).facts());
    }

    @Override
    public byte @Nullable [] min(int column) {
        return (byte[]) block.getArray(layout.column(column).facts() + 1);
    }

    @Override
    public byte @Nullable [] max(int column) {
        return (byte[]) block.getArray(layout.column(column).facts() + 2);
    }

    @Override
    public void close() {
        pool.close();
    }
}
