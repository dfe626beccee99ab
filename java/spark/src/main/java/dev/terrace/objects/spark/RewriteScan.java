package dev.terrace.objects.spark;

import java.util.List;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructType;

/// Reads parts that are written anew. A task reads as many of them as make a part, one after the
/// other.
record RewriteScan(PartStore store, StructType schema, RewritePlan plan) implements Scan, Batch {
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
        return new PartsReader.Factory(
                new BlockReader.Factory(store, schema, schema, List.of(), Long.MAX_VALUE));
    }
}
