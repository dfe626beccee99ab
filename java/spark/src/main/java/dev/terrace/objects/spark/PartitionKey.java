package dev.terrace.objects.spark;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// The values of the partition columns that all rows of a partition have, as [OrderKeys]. So values
/// that Spark takes for equal are in one partition: zeros of either sign, and all that is NaN.
///
/// @param keys null: the column is null in all rows
record PartitionKey(List<@Nullable ByteBuffer> keys) {
    /// @param of the keys of the columns
    static PartitionKey of(byte @Nullable [][] of) {
        List<@Nullable ByteBuffer> keys = new ArrayList<>();
        for (byte[] key : of) {
            keys.add(key == null ? null : ByteBuffer.wrap(key));
        }
        return new PartitionKey(Collections.unmodifiableList(keys));
    }

    /// The key of the partition with these values.
    ///
    /// @param columns the values' names and types
    static PartitionKey of(InternalRow values, StructType columns) {
        byte[][] keys = new byte[columns.size()][];
        for (int i = 0; i < keys.length; i++) {
            keys[i] = OrderKeys.in(values, i, columns.apply(i).dataType());
        }
        return of(keys);
    }

    /// The values, as Spark has them.
    ///
    /// @param columns their names and types
    InternalRow values(StructType columns) {
        Object[] values = new Object[keys.size()];
        for (int i = 0; i < values.length; i++) {
            ByteBuffer key = keys.get(i);
            values[i] =
                    key == null ? null : OrderKeys.value(key.array(), columns.apply(i).dataType());
        }
        return new GenericInternalRow(values);
    }

    /// Whether columns with these numbers have the same values in another.
    boolean agrees(PartitionKey other, int[] columns) {
        for (int i = 0; i < columns.length; i++) {
            ByteBuffer wanted = other.keys.get(i);
            if (wanted == null
                    ? keys.get(columns[i]) != null
                    : !wanted.equals(keys.get(columns[i]))) {
                return false;
            }
        }
        return true;
    }
}
