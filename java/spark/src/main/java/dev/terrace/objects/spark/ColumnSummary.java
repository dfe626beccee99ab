package dev.terrace.objects.spark;

import java.io.Serial;
import java.io.Serializable;
import java.util.Collection;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.NullType;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// A summary of a column's values in a part. Bounds are keys whose bytes, compared as unsigned
/// numbers, have the order of the values.
///
/// @param nulls how many are null
/// @param bytes of all values, as they are stored
/// @param min no value's key is less; null: there is none, or the type has no order
/// @param max no value's key is greater; null: there is none, or nothing is known
record ColumnSummary(long nulls, long bytes, byte @Nullable [] min, byte @Nullable [] max)
        implements Serializable {
    @Serial private static final long serialVersionUID = 1L;

    /// Whether keys of this type are numbers that say all of the value: those of floating point
    /// know no sign of zero.
    static boolean isExact(DataType type) {
        if (type instanceof FloatType || type instanceof DoubleType || type instanceof NullType) {
            return false;
        }
        ColumnLayout layout = BlockLayout.of(new StructType().add("value", type)).column(0);
        return layout.hasValues() && !layout.isVariable();
    }

    /// How many bytes so many values of an exact type take if each has as few bits as the bounds
    /// allow; as they are stored, if there are no bounds.
    long packedBytes(long values) {
        if (min == null || max == null) {
            return bytes;
        }
        long distance = OrderKeys.toLong(max) - OrderKeys.toLong(min);
        int bits = Math.max(1, Long.SIZE - Long.numberOfLeadingZeros(distance));
        return Math.min(bytes, values * bits / Byte.SIZE);
    }

    /// The least, or the greatest, number of a column whose type is exact; null if there is none.
    static @Nullable Long bound(Collection<Part> parts, int column, boolean isLeast) {
        Long found = null;
        for (Part part : parts) {
            ColumnSummary summary = part.columns().get(column);
            byte[] key = isLeast ? summary.min() : summary.max();
            if (key != null) {
                long number = OrderKeys.toLong(key);
                found =
                        found == null
                                ? Long.valueOf(number)
                                : Long.valueOf(
                                        isLeast
                                                ? Math.min(found, number)
                                                : Math.max(found, number));
            }
        }
        return found;
    }
}
