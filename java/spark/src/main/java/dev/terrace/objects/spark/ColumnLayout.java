package dev.terrace.objects.spark;

import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.StorageTier;
import java.util.List;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.VarcharType;
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.jspecify.annotations.Nullable;

/// Where the values of a column, or the elements of its arrays, lie in a block: the numbers of the
/// block's fields. -1: there is no such field.
///
/// @param type of the values
/// @param kind of the field with the values: one of fixed width for each row, also where it is
///   null; or the bytes of all rows one behind the other
/// @param values field with the values; none of arrays, whose elements have fields of their own
/// @param nulls field with a bit for each row, set where it is null; null itself where no row is
/// @param offsets field that says where each row's bytes, or elements, begin, and where the last's
///   end
/// @param facts the first of three fields that say of a column how many rows are null, the key of
///   the least value, and that of the greatest
/// @param element of arrays
record ColumnLayout(
        DataType type,
        FieldKind kind,
        int values,
        int nulls,
        int offsets,
        int facts,
        @Nullable ColumnLayout element) {

    /// Adds the fields of a column to those of a block.
    ///
    /// @throws IllegalArgumentException if values of this type cannot be stored
    static ColumnLayout addColumn(
            List<FieldSpec> fields, String column, DataType type, StorageTier tier) {
        String name = fields.size() + ":" + column;
        int facts = fields.size();
        fields.add(FieldSpec.of(name + ".nullCount", FieldKind.INT));
        fields.add(FieldSpec.of(name + ".min", FieldKind.BYTES).orNull());
        fields.add(FieldSpec.of(name + ".max", FieldKind.BYTES).orNull());
        return add(fields, name, column, type, tier, facts);
    }

    private static ColumnLayout add(
            List<FieldSpec> fields,
            String name,
            String column,
            DataType type,
            StorageTier tier,
            int facts) {
        int nulls = fields.size();
        fields.add(FieldSpec.of(name + ".nulls", FieldKind.BYTES).on(tier).orNull());
        FieldKind kind = kind(type, column);
        boolean isVariable = kind == FieldKind.BYTES && !isByte(type);
        int offsets = isVariable ? fields.size() : -1;
        if (isVariable) {
            fields.add(FieldSpec.of(name + ".offsets", FieldKind.INTS).on(tier).orNull());
        }
        if (type instanceof ArrayType array) {
            ColumnLayout element = add(fields, name + "[]", column, array.elementType(), tier, -1);
            return new ColumnLayout(type, kind, -1, nulls, offsets, facts, element);
        }
        fields.add(FieldSpec.of(name, kind).on(tier).orNull());
        return new ColumnLayout(type, kind, fields.size() - 1, nulls, offsets, facts, null);
    }

    private static boolean isByte(DataType type) {
        return type instanceof BooleanType || type instanceof ByteType;
    }

    private static FieldKind kind(DataType type, String column) {
        return switch (type) {
            case BooleanType _, ByteType _, BinaryType _, ArrayType _ -> FieldKind.BYTES;
            case CharType _, VarcharType _ -> throw cannotStore(type, column);
            case StringType _ -> FieldKind.BYTES;
            case ShortType _ -> FieldKind.SHORTS;
            case IntegerType _, DateType _, YearMonthIntervalType _ -> FieldKind.INTS;
            case LongType _, TimestampType _, TimestampNTZType _, DayTimeIntervalType _ ->
                    FieldKind.LONGS;
            case FloatType _ -> FieldKind.FLOATS;
            case DoubleType _ -> FieldKind.DOUBLES;
            case DecimalType decimal ->
                    decimal.precision() <= Decimal.MAX_LONG_DIGITS()
                            ? FieldKind.LONGS
                            : FieldKind.BYTES;
            default -> throw cannotStore(type, column);
        };
    }

    private static IllegalArgumentException cannotStore(DataType type, String column) {
        return new IllegalArgumentException(
                "column "
                        + column
                        + ": values of type "
                        + type.sql()
                        + " cannot be stored: cast it to numbers, string, binary, date, timestamp"
                        + " or arrays of them, or make columns of its fields");
    }

    /// Whether each row has bytes, or elements, of its own number.
    boolean isVariable() {
        return offsets >= 0;
    }
}
