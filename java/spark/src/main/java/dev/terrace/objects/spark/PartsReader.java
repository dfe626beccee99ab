package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.Serial;
import java.util.Iterator;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.jspecify.annotations.Nullable;

/// Reads the parts of a task, of which one is open at a time.
final class PartsReader implements PartitionReader<ColumnarBatch> {
    private final BlockReader.Factory factory;
    private final Iterator<TableScan.PartInput> inputs;
    private @Nullable BlockReader current;

    /// Blocks of parts before the current one.
    private long read;

    private long skipped;

    /// Makes readers on executors.
    record Factory(BlockReader.Factory parts) implements ColumnarFactory {
        @Serial private static final long serialVersionUID = 1L;

        @Override
        public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
            return new PartsReader(parts, ((PartsInput) partition).parts().iterator());
        }
    }

    private PartsReader(BlockReader.Factory factory, Iterator<TableScan.PartInput> inputs) {
        this.factory = factory;
        this.inputs = inputs;
    }

    @Override
    public boolean next() throws IOException {
        while (current == null || !current.next()) {
            close();
            if (!inputs.hasNext()) {
                return false;
            }
            current = factory.open(inputs.next());
        }
        return true;
    }

    @Override
    public ColumnarBatch get() {
        if (current == null) {
            throw new IllegalStateException("there is no batch");
        }
        return current.get();
    }

    @Override
    public CustomTaskMetric[] currentMetricsValues() {
        return current == null
                ? BlockMetrics.of(read, skipped)
                : BlockMetrics.of(read + current.read(), skipped + current.skipped());
    }

    @Override
    public void close() {
        if (current != null) {
            read += current.read();
            skipped += current.skipped();
            current.close();
            current = null;
        }
    }
}
