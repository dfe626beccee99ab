package dev.terrace.objects.spark;

import static org.apache.spark.sql.functions.avg;
import static org.apache.spark.sql.functions.broadcast;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.count;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.max;
import static org.apache.spark.sql.functions.min;
import static org.apache.spark.sql.functions.not;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.function.UnaryOperator;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.OrderUtils;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import scala.jdk.javaapi.CollectionConverters;

/// Queries of generated tables have the same results as over Parquet.
@ExtendWith(LocalSpark.class)
class ParquetEqualityTest {
    private static final String BROADCAST = "spark.sql.autoBroadcastJoinThreshold";

    @TempDir private Path dir;

    /// A few, or as many as `-Dterrace.seeds=100` says.
    static LongStream queriesHaveTheResultsThatTheyHaveOverParquet() {
        return LongStream.rangeClosed(1, Long.getLong("terrace.seeds", 3));
    }

    @ParameterizedTest
    @MethodSource
    void queriesHaveTheResultsThatTheyHaveOverParquet(long seed, SparkSession spark) {
        Random random = new Random(seed);
        // Compiling takes longer than most of these queries.
        spark.conf().set("spark.sql.codegen.wholeStage", seed == 1);
        // With 0, no table is small: the keys of one that is broadcast filter the other.
        spark.conf().set(BROADCAST, random.nextBoolean() ? 0 : 10 << 20);
        RandomTable table = new RandomTable(random);
        Dataset<Row> rows = table.rows(spark);
        String parquet = dir.resolve("parquet").toString();
        String terrace = dir.resolve("terrace").toString();
        rows.write().parquet(parquet);
        rows.write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("block.rows", 1 + random.nextInt(50))
                .option("tier.default", random.nextBoolean() ? "PMEM" : "DISK")
                .option("tier.c1", random.nextBoolean() ? "PMEM" : "DISK")
                .mode("append")
                .save(terrace);
        Dataset<Row> expected = spark.read().parquet(parquet);
        Dataset<Row> actual =
                spark.read()
                        .format("terrace")
                        .option("split.bytes", 1 + random.nextInt(4000))
                        .load(terrace);
        for (UnaryOperator<Dataset<Row>> query : queries(random, table)) {
            Dataset<Row> wanted = query.apply(expected);
            assertEquals(
                    sorted(wanted),
                    sorted(query.apply(actual)),
                    () -> "seed " + seed + ", " + wanted.queryExecution().optimizedPlan());
        }
    }

    @AfterEach
    void compileAgain(SparkSession spark) {
        spark.conf().unset("spark.sql.codegen.wholeStage");
        spark.conf().unset(BROADCAST);
    }

    private static List<UnaryOperator<Dataset<Row>>> queries(Random random, RandomTable table) {
        List<UnaryOperator<Dataset<Row>>> queries = new ArrayList<>();
        queries.add(rows -> rows);
        if (Stream.of(table.fields()).allMatch(field -> isOrdered(field.dataType()))) {
            // Spark does not compare maps.
            queries.add(Dataset::distinct);
        }
        for (int i = 0; i < 4; i++) {
            Column condition = condition(random, table, 2);
            Column[] columns =
                    Stream.generate(() -> col(table.column(random).name()))
                            .limit(random.nextInt(3))
                            .toArray(Column[]::new);
            queries.add(rows -> rows.filter(condition).select(columns));
        }
        queries.add(rows -> rows.agg(count(lit(1)), aggregates(table)));
        queries.add(rows -> rows.limit(3).agg(count(lit(1))));
        String[] nested = nested(table);
        queries.add(rows -> rows.selectExpr(nested));
        for (String one : nested) {
            queries.add(rows -> rows.filter(one + " IS NOT NULL").selectExpr("c0", one));
        }
        String key = table.column(random).name();
        queries.add(rows -> rows.groupBy("c0").agg(count(lit(1)), count(key), avg("c0")));
        queries.add(rows ->
                rows.as("a")
                        .join(
                                broadcast(rows.filter(col("c0").gt(0))).as("b"),
                                col("a.c0").equalTo(col("b.c0")))
                        .select("a.c0", "b.c1"));
        return queries;
    }

    static boolean isOrdered(DataType type) {
        return OrderUtils.isOrderable(type);
    }

    /// Expressions of what is in structs, maps and arrays of structs.
    private static String[] nested(RandomTable table) {
        List<String> nested = new ArrayList<>(List.of("c0 + 1"));
        for (StructField field : table.fields()) {
            addNested(nested, field.name(), field.dataType());
        }
        return nested.toArray(new String[0]);
    }

    private static void addNested(List<String> nested, String value, DataType type) {
        switch (type) {
            case StructType struct -> {
                for (StructField field : struct.fields()) {
                    String inside = value + ".`" + field.name() + "`";
                    nested.add(inside);
                    addNested(nested, inside, field.dataType());
                }
            }
            case MapType map -> {
                nested.add("map_keys(" + value + ")");
                nested.add("size(" + value + ")");
                addNested(nested, "get(map_values(" + value + "), 0)", map.valueType());
            }
            case ArrayType array -> addNested(nested, "get(" + value + ", 1)", array.elementType());
            default -> {}
        }
    }

    private static Column[] aggregates(RandomTable table) {
        List<Column> aggregates = new ArrayList<>();
        for (StructField field : table.fields()) {
            Column column = col(field.name());
            aggregates.add(count(column));
            if (isOrdered(field.dataType()) && !(field.dataType() instanceof BinaryType)) {
                aggregates.add(min(column));
                aggregates.add(max(column));
            }
        }
        return aggregates.toArray(new Column[0]);
    }

    /// A condition that chance has chosen.
    static Column condition(Random random, RandomTable table, int depth) {
        if (depth > 0) {
            Column one = condition(random, table, depth - 1);
            Column other = condition(random, table, depth - 1);
            return switch (random.nextInt(5)) {
                case 0 -> one.and(other);
                case 1 -> one.or(other);
                case 2 -> not(one);
                default -> one;
            };
        }
        StructField field = table.column(random);
        Column column = col(field.name());
        Object value = table.value(field, random);
        if (value == null || !OrderKeys.areExact(field.dataType()) || random.nextInt(8) == 0) {
            return random.nextBoolean() ? column.isNull() : column.isNotNull();
        }
        if (field.dataType() instanceof BooleanType) {
            return column.equalTo(value);
        }
        if (field.dataType() instanceof StringType && random.nextInt(3) == 0) {
            String text = (String) value;
            return column.startsWith(text.substring(0, Math.min(2, text.length())));
        }
        return switch (random.nextInt(8)) {
            case 0 -> column.equalTo(value);
            case 1 -> column.lt(value);
            case 2 -> column.leq(value);
            case 3 -> column.gt(value);
            case 4 -> column.geq(value);
            case 5 -> column.eqNullSafe(value);
            case 6 ->
                    column.isin(
                            Stream.generate(() -> table.someValue(field, random))
                                    .limit(1 + random.nextInt(30))
                                    .toArray());
            default -> column.isin(value, table.someValue(field, random));
        };
    }

    /// The rows as texts that are the same for equal rows.
    static List<String> sorted(Dataset<Row> rows) {
        return rows.collectAsList().stream().map(ParquetEqualityTest::text).sorted().toList();
    }

    private static String text(Object value) {
        return switch (value) {
            case null -> "null";
            case Row row -> {
                List<String> values = new ArrayList<>();
                for (int i = 0; i < row.size(); i++) {
                    values.add(text(row.get(i)));
                }
                yield values.toString();
            }
            case byte[] bytes -> HexFormat.of().formatHex(bytes);
            case scala.collection.Seq<?> elements ->
                    CollectionConverters.asJava(elements).stream()
                            .map(ParquetEqualityTest::text)
                            .toList()
                            .toString();
            case scala.collection.Map<?, ?> map ->
                    CollectionConverters.asJava(map).entrySet().stream()
                            .map(entry -> text(entry.getKey()) + "=" + text(entry.getValue()))
                            .sorted()
                            .toList()
                            .toString();
            default -> value.toString();
        };
    }
}
