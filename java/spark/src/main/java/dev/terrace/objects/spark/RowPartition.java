package dev.terrace.objects.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.UTF8String;
import org.jspecify.annotations.Nullable;

/// The partition that a task writes rows of. At first that is the one of which all values are null.
final class RowPartition {
    private final int[] columns;
    private final DataType[] types;

    /// As Spark has them: most rows have the values of the row before, and need no keys.
    private final @Nullable Object[] values;

    private final byte @Nullable [][] keys;

    RowPartition(TableColumns of) {
        columns = of.partitionNumbers();
        types = new DataType[columns.length];
        for (int i = 0; i < types.length; i++) {
            types[i] = of.schema().apply(columns[i]).dataType();
        }
        values = new Object[columns.length];
        keys = new byte[columns.length][];
    }

    /// Whether a row is in another partition.
    boolean moves(InternalRow row) {
        for (int i = 0; i < columns.length; i++) {
            if (!Objects.deepEquals(value(row, i), values[i])
                    && !Arrays.equals(OrderKeys.in(row, columns[i], types[i]), keys[i])) {
                return true;
            }
        }
        return false;
    }

    /// Goes to the partition of a row.
    void go(InternalRow row) {
        for (int i = 0; i < columns.length; i++) {
            Object value = value(row, i);
            // Spark may use the memory of a row for the next one.
            values[i] = value instanceof UTF8String text ? text.copy() : value;
            keys[i] = OrderKeys.in(row, columns[i], types[i]);
        }
    }

    private @Nullable Object value(InternalRow row, int i) {
        return row.isNullAt(columns[i]) ? null : row.get(columns[i], types[i]);
    }

    /// What the manifest says of a part's columns in this partition: of a partition column its
    /// value, as a bound of both sides that is not cut off.
    List<ColumnSummary> summaries(List<ColumnSummary> of) {
        List<ColumnSummary> all = new ArrayList<>(of);
        for (int i = 0; i < columns.length; i++) {
            ColumnSummary before = of.get(columns[i]);
            all.set(
                    columns[i],
                    new ColumnSummary(before.nulls(), before.bytes(), keys[i], keys[i]));
        }
        return all;
    }
}
