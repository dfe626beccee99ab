package dev.terrace.objects.spark;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;

/// Makes readers that read by the column only.
interface ColumnarFactory extends PartitionReaderFactory {
    @Override
    default boolean supportColumnarReads(InputPartition partition) {
        return true;
    }

    @Override
    default PartitionReader<InternalRow> createReader(InputPartition partition) {
        throw new UnsupportedOperationException("this is read by the column");
    }
}
