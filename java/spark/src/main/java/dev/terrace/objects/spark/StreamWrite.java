package dev.terrace.objects.spark;

import java.io.Serial;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/// An epoch of a streaming query: a write whose commit also says that the query has committed this
/// epoch. Spark runs an epoch again if it was killed before its checkpoint said so; what that
/// writes is removed.
///
/// @param write of the epoch
/// @param query the query's id, which its checkpoint keeps
record StreamWrite(TableWrite write, String query) implements StreamingWrite {
    /// Of a job: whether its query has the trigger `Continuous`.
    private static final String IS_CONTINUOUS = "__is_continuous_processing";

    /// Makes writers on executors.
    private record WriterFactory(TableWrite.WriterFactory parts)
            implements StreamingDataWriterFactory {
        @Serial private static final long serialVersionUID = 1L;

        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task, long epoch) {
            return parts.createWriter(partition, task);
        }
    }

    /// What `EXPLAIN` shows.
    @Override
    public String toString() {
        return write.description();
    }

    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo info) {
        String isContinuous = SparkSession.active().sparkContext().getLocalProperty(IS_CONTINUOUS);
        if (Boolean.parseBoolean(isContinuous)) {
            throw new UnsupportedOperationException(
                    "a table takes no rows of a query with the trigger Continuous: use"
                            + " ProcessingTime or AvailableNow");
        }
        return new WriterFactory(write.createBatchWriterFactory(info));
    }

    @Override
    public void commit(long epoch, WriterCommitMessage[] messages) {
        write.commit(query, epoch, messages);
    }

    @Override
    public void abort(long epoch, WriterCommitMessage[] messages) {
        write.abort(messages);
    }
}
