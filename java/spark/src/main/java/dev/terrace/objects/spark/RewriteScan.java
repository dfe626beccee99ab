package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.Serial;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.jspecify.annotations.Nullable;

/// Reads parts that are written anew. A task reads as many of them as make a part, one after the
/// other.
record RewriteScan(PartStore store, StructType schema, RewritePlan plan) implements Scan, Batch {
    /// The input of a task.
    record Input(List<TableScan.PartInput> parts) implements InputPartition {
        @Serial private static final long serialVersionUID = 1L;

        Input {
            parts = List.copyOf(parts);
        }

        @Override
        public String[] preferredLocations() {
            return parts.getFirst().preferredLocations();
        }
    }

    /// A share of a part's blocks. Nobody asks for the ids of its rows.
    static TableScan.PartInput share(Part part, int share, int shares) {
        return new TableScan.PartInput(part.withoutColumns(), 0, share, shares, part.bytes());
    }

    @Override
    public StructType readSchema() {
        return schema;
    }

    @Override
    public String description() {
        return "parts that are written anew: "
                + plan.groups().stream().mapToInt(group -> group.parts().size()).sum();
    }

    @Override
    public Batch toBatch() {
        return this;
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
        return ColumnarSupportMode.SUPPORTED;
    }

    @Override
    public InputPartition[] planInputPartitions() {
        return plan.inputs().toArray(new InputPartition[0]);
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        int[] columns = IntStream.range(0, schema.size()).toArray();
        return new Factory(
                new BlockReader.Factory(store, schema, columns, List.of(), Long.MAX_VALUE));
    }

    private record Factory(BlockReader.Factory parts) implements ColumnarFactory {
        @Serial private static final long serialVersionUID = 1L;

        @Override
        public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
            return new Reader(parts, ((Input) partition).parts().iterator());
        }
    }

    private static final class Reader implements PartitionReader<ColumnarBatch> {
        private final BlockReader.Factory factory;
        private final Iterator<TableScan.PartInput> inputs;
        private @Nullable PartitionReader<ColumnarBatch> current;

        Reader(BlockReader.Factory factory, Iterator<TableScan.PartInput> inputs) {
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
                current = factory.createColumnarReader(inputs.next());
            }
            return true;
        }

        @Override
        public ColumnarBatch get() {
            return Objects.requireNonNull(current).get();
        }

        @Override
        public void close() throws IOException {
            if (current != null) {
                current.close();
                current = null;
            }
        }
    }
}
