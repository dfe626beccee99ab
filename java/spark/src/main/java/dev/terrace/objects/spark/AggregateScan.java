package dev.terrace.objects.spark;

import java.io.Serial;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;
import org.jspecify.annotations.Nullable;

/// A query that the manifest answers: how many rows or values there are, the least and the greatest
/// number, date or time of a column. No pool is opened.
///
/// Numbers with a floating point are left out, as the keys that are kept of them know no sign of
/// zero.
final class AggregateScan implements Scan, Batch {
    private final String name;
    private final StructType schema;
    private final List<@Nullable Long> row;

    private AggregateScan(String name, StructType schema, List<@Nullable Long> row) {
        this.name = name;
        this.schema = schema;
        this.row = row;
    }

    /// The one partition.
    private record OneRow() implements InputPartition {
        @Serial private static final long serialVersionUID = 1L;
    }

    /// Makes the reader of that row.
    private record Factory(StructType schema, List<@Nullable Long> row) implements ColumnarFactory {
        @Serial private static final long serialVersionUID = 1L;

        @Override
        public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
            BlockLayout layout = BlockLayout.of(schema);
            ColumnVector[] vectors = new ColumnVector[row.size()];
            for (int i = 0; i < vectors.length; i++) {
                vectors[i] = BlockVector.ofNumber(layout.column(i), row.get(i));
            }
            return new OneBatch(new ColumnarBatch(vectors, 1));
        }
    }

    /// Reads it.
    private static final class OneBatch implements PartitionReader<ColumnarBatch> {
        private final ColumnarBatch batch;
        private boolean isRead;

        OneBatch(ColumnarBatch batch) {
            this.batch = batch;
        }

        @Override
        public boolean next() {
            boolean isThere = !isRead;
            isRead = true;
            return isThere;
        }

        @Override
        public ColumnarBatch get() {
            return batch;
        }

        @Override
        public void close() {
            // It is in memory.
        }
    }

    /// A scan that answers a query from the manifest; null if the manifest does not suffice.
    static @Nullable AggregateScan of(
            String name, Aggregation aggregation, Manifest manifest, StructType schema) {
        if (aggregation.groupByExpressions().length > 0) {
            return null;
        }
        // A part knows the columns of all its rows, those that are deleted included.
        boolean areColumnsKnown = !manifest.hasDeletions();
        StructType made = new StructType();
        List<@Nullable Long> row = new ArrayList<>();
        for (AggregateFunc function : aggregation.aggregateExpressions()) {
            int column =
                    function.children().length == 1 ? column(function.children()[0], schema) : -1;
            DataType type = column < 0 ? DataTypes.NullType : schema.fields()[column].dataType();
            switch (function) {
                case CountStar _ -> row.add(manifest.rows());
                case Count count when areColumnsKnown && column >= 0 && !count.isDistinct() ->
                        row.add(manifest.rows() - nulls(manifest, column));
                case Min _ when areColumnsKnown && ColumnSummary.isExact(type) ->
                        row.add(ColumnSummary.bound(manifest.parts(), column, true));
                case Max _ when areColumnsKnown && ColumnSummary.isExact(type) ->
                        row.add(ColumnSummary.bound(manifest.parts(), column, false));
                default -> {
                    return null;
                }
            }
            boolean isCount = function instanceof Count || function instanceof CountStar;
            made = made.add(function.toString(), isCount ? DataTypes.LongType : type);
        }
        return new AggregateScan(name, made, row);
    }

    private static int column(Expression expression, StructType schema) {
        return expression instanceof NamedReference reference && reference.fieldNames().length == 1
                ? List.of(schema.fieldNames()).indexOf(reference.fieldNames()[0])
                : -1;
    }

    private static long nulls(Manifest manifest, int column) {
        return manifest.parts().stream()
                .mapToLong(part -> part.columns().get(column).nulls())
                .sum();
    }

    @Override
    public StructType readSchema() {
        return schema;
    }

    @Override
    public String description() {
        return name + ", " + schema.catalogString() + " of its manifest";
    }

    @Override
    public Batch toBatch() {
        return this;
    }

    @Override
    public InputPartition[] planInputPartitions() {
        return new InputPartition[] {new OneRow()};
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new Factory(schema, row);
    }
}
