package dev.terrace.objects.spark;

import dev.terrace.objects.FieldKind;
import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.StorageTier;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.Stream;
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
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.sql.types.VarcharType;
import org.apache.spark.sql.types.YearMonthIntervalType;

/// Where the values of a column lie in a block, or those that its values are made of: the numbers
/// of the block's fields. -1: there is no such field.
///
/// @param type of the values
/// @param kind of the field with the values: one of fixed width for each row, also where it is
///   null; or the bytes of all rows one behind the other
/// @param values field with the values; none of arrays, maps and structs, whose children have
///   fields of their own
/// @param nulls field with a bit for each row, set where it is null; null itself where no row is
/// @param offsets field that says where each row's bytes, elements or entries begin, and where the
///   last's end
/// @param facts the first of three fields that say of a column how many rows are null, the key of
///   the least value, and that of the greatest
/// @param children of arrays their elements, of maps keys and values; of structs their fields, of
///   which there are as many as structs
record ColumnLayout(
        DataType type,
        FieldKind kind,
        int values,
        int nulls,
        int offsets,
        int facts,
        List<ColumnLayout> children) {

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
        return new Fields(fields, column, tier).add(name, type, facts);
    }

    /// The fields of a block, to which those of a column are added.
    private record Fields(List<FieldSpec> fields, String column, StorageTier tier) {
        ColumnLayout add(String name, DataType type, int facts) {
            FieldKind kind = kind(type, column);
            int nulls = add(name + ".nulls", FieldKind.BYTES);
            int offsets = hasOffsets(type, kind) ? add(name + ".offsets", FieldKind.INTS) : -1;
            List<ColumnLayout> children =
                    switch (type) {
                        case ArrayType array -> List.of(child(name + "[]", array.elementType()));
                        case MapType map ->
                                List.of(
                                        child(name + "{key}", map.keyType()),
                                        child(name + "{value}", map.valueType()));
                        case StructType struct ->
                                IntStream.range(0, struct.size())
                                        .mapToObj(i -> child(name, i, struct.apply(i)))
                                        .toList();
                        default -> List.of();
                    };
            int values = isNested(type) ? -1 : add(name, kind);
            return new ColumnLayout(type, kind, values, nulls, offsets, facts, children);
        }

        private int add(String name, FieldKind kind) {
            fields.add(FieldSpec.of(name, kind).on(tier).orNull());
            return fields.size() - 1;
        }

        private ColumnLayout child(String name, DataType type) {
            return add(name, type, -1);
        }

        /// Its name is another than that of any field of the struct itself, and of its other
        /// fields.
        private ColumnLayout child(String name, int number, StructField field) {
            return child(name + "{" + number + ":" + field.name() + "}", field.dataType());
        }
    }

    private static boolean hasOffsets(DataType type, FieldKind kind) {
        return kind == FieldKind.BYTES && !isByte(type) && !(type instanceof StructType);
    }

    private static boolean isNested(DataType type) {
        return type instanceof ArrayType || type instanceof MapType || type instanceof StructType;
    }

    private static boolean isByte(DataType type) {
        return type instanceof BooleanType || type instanceof ByteType;
    }

    private static FieldKind kind(DataType type, String column) {
        return switch (type) {
            case BooleanType _, ByteType _, BinaryType _ -> FieldKind.BYTES;
            case ArrayType _, MapType _, StructType _ -> FieldKind.BYTES;
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
                        + " or structs, maps and arrays of them");
    }

    /// Whether each row has bytes, elements or entries, of its own number.
    boolean isVariable() {
        return offsets >= 0;
    }

    /// Whether the values are in a field of their own, and not in those of children.
    boolean hasValues() {
        return values >= 0;
    }

    /// The layout of what a query needs of the values: of structs only some fields.
    ///
    /// @param needed the type without the fields that are not needed
    ColumnLayout of(DataType needed) {
        List<ColumnLayout> some =
                switch (needed) {
                    case ArrayType array -> List.of(children.get(0).of(array.elementType()));
                    case MapType map ->
                            List.of(
                                    children.get(0).of(map.keyType()),
                                    children.get(1).of(map.valueType()));
                    case StructType struct ->
                            Stream.of(struct.fields())
                                    .map(field ->
                                            children.get(
                                                            ((StructType) type)
                                                                    .fieldIndex(field.name()))
                                                    .of(field.dataType()))
                                    .toList();
                    default -> children;
                };
        return new ColumnLayout(needed, kind, values, nulls, offsets, facts, some);
    }
}
