package dev.terrace.objects.spark;

import org.apache.spark.sql.connector.metric.CustomSumMetric;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/// The metrics of a scan in Spark's user interface: the number of blocks that were read, and of
/// those that were skipped.
final class BlockMetrics {
    private static final String READ = "blocksRead";
    private static final String SKIPPED = "blocksSkipped";

    private BlockMetrics() {}

    /// Blocks that may have had rows for the query.
    public static final class Read extends CustomSumMetric {
        /// For Spark.
        public Read() {}

        @Override
        public String name() {
            return READ;
        }

        @Override
        public String description() {
            return "blocks read";
        }
    }

    /// Blocks that had none, by what is known of their columns, or by the values of columns that
    /// conditions name.
    public static final class Skipped extends CustomSumMetric {
        /// For Spark.
        public Skipped() {}

        @Override
        public String name() {
            return SKIPPED;
        }

        @Override
        public String description() {
            return "blocks skipped";
        }
    }

    /// A task's.
    private record Count(String name, long value) implements CustomTaskMetric {}

    static CustomTaskMetric[] of(long read, long skipped) {
        return new CustomTaskMetric[] {new Count(READ, read), new Count(SKIPPED, skipped)};
    }
}
