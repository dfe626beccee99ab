package dev.terrace.objects.spark;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.Period;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.DayTimeIntervalType;
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
import org.apache.spark.sql.types.YearMonthIntervalType;
import org.jspecify.annotations.Nullable;

/// A table with columns of types, and values, that chance has chosen. The first column is an int.
final class RandomTable {
    private static final List<DataType> TYPES =
            List.of(
                    DataTypes.BooleanType,
                    DataTypes.ByteType,
                    DataTypes.ShortType,
                    DataTypes.IntegerType,
                    DataTypes.LongType,
                    DataTypes.FloatType,
                    DataTypes.DoubleType,
                    DataTypes.StringType,
                    DataTypes.BinaryType,
                    DataTypes.DateType,
                    DataTypes.TimestampType,
                    DataTypes.TimestampNTZType,
                    DataTypes.createDecimalType(9, 2),
                    DataTypes.createDecimalType(30, 5),
                    DataTypes.createYearMonthIntervalType(),
                    DataTypes.createDayTimeIntervalType(),
                    DataTypes.createArrayType(DataTypes.IntegerType),
                    DataTypes.createArrayType(DataTypes.DoubleType),
                    DataTypes.createArrayType(DataTypes.StringType),
                    DataTypes.createArrayType(DataTypes.createArrayType(DataTypes.ByteType)),
                    new StructType()
                            .add("nulls", DataTypes.IntegerType)
                            .add("B", DataTypes.StringType)
                            .add("c.d", DataTypes.createDecimalType(30, 5)),
                    new StructType()
                            .add("list", DataTypes.createArrayType(DataTypes.LongType))
                            .add(
                                    "inner",
                                    new StructType()
                                            .add("x", DataTypes.DoubleType)
                                            .add("y", DataTypes.BinaryType)),
                    DataTypes.createMapType(DataTypes.StringType, DataTypes.IntegerType),
                    DataTypes.createMapType(
                            DataTypes.IntegerType,
                            new StructType()
                                    .add("flag", DataTypes.BooleanType)
                                    .add(
                                            "more",
                                            DataTypes.createMapType(
                                                    DataTypes.DateType, DataTypes.FloatType))),
                    DataTypes.createArrayType(
                            new StructType()
                                    .add("n", DataTypes.ShortType)
                                    .add("s", DataTypes.StringType)));

    private final StructType schema;
    private final List<Row> rows = new ArrayList<>();
    private final int partitions;
    private final int nulls;

    RandomTable(Random random) {
        StructType made = new StructType().add("c0", DataTypes.IntegerType);
        int columns = 3 + random.nextInt(8);
        for (int i = 1; i < columns; i++) {
            made = made.add("c" + i, TYPES.get(random.nextInt(TYPES.size())));
        }
        schema = made;
        partitions = 1 + random.nextInt(3);
        nulls = random.nextInt(4);
        int count = random.nextInt(300);
        for (int i = 0; i < count; i++) {
            rows.add(row(random));
        }
    }

    private Row row(Random random) {
        return RowFactory.create(
                Stream.of(schema.fields()).map(field -> value(field, random)).toArray());
    }

    Dataset<Row> rows(SparkSession spark) {
        return spark.createDataFrame(rows, schema).repartition(partitions);
    }

    /// Other rows with the same columns, no two of which have the same number in the first.
    Dataset<Row> others(SparkSession spark, Random random) {
        List<Row> others = new ArrayList<>();
        Set<Object> numbers = new HashSet<>();
        for (int i = random.nextInt(40); i > 0; i--) {
            Row row = row(random);
            if (row.isNullAt(0) || numbers.add(row.get(0))) {
                others.add(row);
            }
        }
        return spark.createDataFrame(others, schema).repartition(partitions);
    }

    StructField[] fields() {
        return schema.fields();
    }

    StructField column(Random random) {
        return schema.fields()[random.nextInt(schema.size())];
    }

    /// A value of a column, or null.
    @Nullable Object value(StructField field, Random random) {
        return random.nextInt(10) < nulls ? null : value(field.dataType(), random);
    }

    /// A value of a column.
    Object someValue(StructField field, Random random) {
        return value(field.dataType(), random);
    }

    private Object value(DataType type, Random random) {
        int small = random.nextInt(40) - 20;
        boolean isExtreme = random.nextInt(30) == 0;
        return switch (type) {
            case BooleanType _ -> random.nextBoolean();
            case ByteType _ -> (byte) small;
            case ShortType _ -> isExtreme ? Short.MIN_VALUE : (short) small;
            case IntegerType _ -> isExtreme ? Integer.MIN_VALUE : small;
            case LongType _ -> isExtreme ? Long.MAX_VALUE : small * 1_000_000_007L;
            case FloatType _ -> isExtreme ? Float.NaN : small / 4f;
            case DoubleType _ ->
                    isExtreme ? Double.NEGATIVE_INFINITY : small == 0 ? -0.0 : small / 8.0;
            case StringType _ -> text(random);
            case BinaryType _ -> text(random).getBytes(StandardCharsets.UTF_8);
            case DateType _ -> LocalDate.ofEpochDay(small * 400L);
            case TimestampType _ -> Instant.ofEpochSecond(small * 100_000_000L, 1000);
            case TimestampNTZType _ ->
                    LocalDateTime.ofEpochSecond(small * 100_000_000L, 2000, ZoneOffset.UTC);
            case DecimalType decimal ->
                    new BigDecimal(
                            isExtreme
                                    ? BigInteger.TEN
                                            .pow(decimal.precision())
                                            .subtract(BigInteger.ONE)
                                    : BigInteger.valueOf(small),
                            decimal.scale());
            case YearMonthIntervalType _ -> Period.ofMonths(small);
            case DayTimeIntervalType _ -> Duration.ofSeconds(small * 1000L);
            case ArrayType array -> elements(array, random);
            case MapType map -> entries(map, random);
            case StructType struct ->
                    RowFactory.create(
                            Stream.of(struct.fields())
                                    .map(field -> value(field, random))
                                    .toArray());
            default -> throw new AssertionError(type);
        };
    }

    private static String text(Random random) {
        String text = "abcdéf漢😀".substring(0, random.nextInt(5)) + random.nextInt(20);
        return random.nextInt(10) == 0 ? "" : random.nextInt(20) == 0 ? text.repeat(100) : text;
    }

    private Object elements(ArrayType array, Random random) {
        List<@Nullable Object> elements = new ArrayList<>();
        int count = random.nextInt(4);
        for (int i = 0; i < count; i++) {
            elements.add(random.nextInt(10) < nulls ? null : value(array.elementType(), random));
        }
        return elements;
    }

    private Object entries(MapType map, Random random) {
        Map<Object, @Nullable Object> entries = new HashMap<>();
        for (int i = random.nextInt(4); i > 0; i--) {
            Object key = value(map.keyType(), random);
            entries.put(key, random.nextInt(10) < nulls ? null : value(map.valueType(), random));
        }
        return entries;
    }
}
