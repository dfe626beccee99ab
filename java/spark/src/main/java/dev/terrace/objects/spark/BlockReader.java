package dev.terrace.objects.spark;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.Pool;
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
final class BlockReader implements PartitionReader<ColumnarBatch>, BlockFilter.Facts {
    private final Pool pool;
    private final TableScan.PartInput input;
    private final BlockLayout layout;
    private final List<BlockFilter> filters;
    private final Cursor<DurableRecord> cursor;
    private final DurableRecord block;
    private final BlockVector[] vectors;
    private final ColumnarBatch batch;
    private long met;
    private long left;
    private long read;
    private long skipped;

    /// Makes readers on executors.
    ///
    /// @param columns the numbers of those that are wanted
    record Factory(PartStore store, StructType schema, int[] columns, List<BlockFilter> filters, int limit)
            implements ColumnarFactory {
        @Serial
        private static final long serialVersionUID = 1L;

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
        layout = BlockLayout.of(query.schema);
        cursor = pool.cursor(layout.storedType(pool, input.part().name()));
        block = cursor.get();
        vectors = Arrays.stream(query.columns).mapToObj(column -> new BlockVector(layout.column(column))).toArray(BlockVector[]::new);
        batch = new ColumnarBatch(vectors.clone());
        left = query.limit;
    }

    @Override
    public boolean next() {
        while (left > 0 && cursor.next()) {
            if (met++ % input.shares() != input.share()) {
                continue;
            }
            if (filters.stream().allMatch(filter -> filter.mayMatch(this))) {
                read++;
                int rows = (int) Math.min(left, rows());
                for (BlockVector vector : vectors) {
                    vector.lead(block, (int) rows());
                }
                batch.setNumRows(rows);
                left -= rows;
                return true;
            }
            skipped++;
        }
        return false;
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
