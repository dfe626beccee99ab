package dev.terrace.objects.spark;

import static org.apache.spark.sql.functions.coalesce;
import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.expr;
import static org.apache.spark.sql.functions.lit;
import static org.apache.spark.sql.functions.not;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.DataFrameReader;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Generated tables that statements change have the rows that a model has: Parquet files that
/// queries write anew for each statement. Each version keeps the rows that it had.
@ExtendWith(LocalSpark.class)
class RowChangesEqualityTest {
    private static final int STATEMENTS = 6;

    @TempDir private Path dir;

    private Random random = new Random();
    private RandomTable table = new RandomTable(random);
    private List<String> partitioning = List.of();
    private final List<String> statements = new ArrayList<>();

    /// A few, or as many as `-Dterrace.seeds=100` says.
    static LongStream statementsDoWhatTheyDoToTheModel() {
        return LongStream.rangeClosed(1, Long.getLong("terrace.seeds", 3));
    }

    @ParameterizedTest
    @MethodSource
    void statementsDoWhatTheyDoToTheModel(long seed, SparkSession spark) throws IOException {
        random = new Random(seed);
        spark.conf().set("spark.sql.codegen.wholeStage", seed == 1);
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        table = new RandomTable(random);
        partitioning =
                Stream.of(table.column(random))
                        .limit(random.nextInt(2))
                        .filter(field -> OrderKeys.areExact(field.dataType()))
                        .map(StructField::name)
                        .toList();
        statements.add("PARTITIONED BY " + partitioning);
        append(table.rows(spark));
        Dataset<Row> model = table.rows(spark);
        Map<Long, List<String>> versions = new TreeMap<>();
        for (int i = 0; i < STATEMENTS; i++) {
            model = kept(spark, change(spark, model));
            Dataset<Row> actual = read(spark).load(terrace());
            List<String> expected = ParquetEqualityTest.sorted(model);
            String message = "seed " + seed + ", " + String.join("\n", statements);
            requireOnePartitionInEachPart(actual, message);
            assertEquals(expected, ParquetEqualityTest.sorted(actual), message);
            assertEquals(expected.size(), actual.count(), message);
            Column condition = ParquetEqualityTest.condition(random, table, 1);
            String[] some = {"c0", table.column(random).name()};
            assertEquals(
                    ParquetEqualityTest.sorted(model.filter(condition).selectExpr(some)),
                    ParquetEqualityTest.sorted(actual.filter(condition).selectExpr(some)),
                    () -> message + ", " + condition);
            String[] aggregates = {"count(c1)", "min(c0)", "max(c0)"};
            assertEquals(
                    model.selectExpr(aggregates).first(),
                    actual.selectExpr(aggregates).first(),
                    message);
            versions.put(version(), expected);
        }
        versions.forEach((version, expected) ->
                assertEquals(
                        expected,
                        ParquetEqualityTest.sorted(
                                read(spark).option("versionAsOf", version).load(terrace())),
                        () -> "seed " + seed + ", version " + version));
    }

    @AfterEach
    void compileAgain(SparkSession spark) {
        spark.conf().unset("spark.sql.codegen.wholeStage");
    }

    private String terrace() {
        return dir.resolve("terrace").toString();
    }

    private Manifest manifest() throws IOException {
        return new ManifestLog(terrace(), new Configuration(false)).require(Manifest.TABLE);
    }

    private long version() throws IOException {
        return manifest().number();
    }

    private void requireOnePartitionInEachPart(Dataset<Row> rows, String message)
            throws IOException {
        Manifest manifest = manifest();
        TableColumns columns = TableColumns.of(manifest);
        assertEquals(partitioning, columns.partitioning(), message);
        Set<PartitionKey> partitions = new HashSet<>();
        for (Part part : manifest.parts()) {
            partitions.add(columns.partitionOf(part));
            for (int column : columns.partitionNumbers()) {
                ColumnSummary summary = part.columns().get(column);
                assertArrayEquals(summary.min(), summary.max(), message);
                long nulls = summary.min() == null ? part.rows() : 0;
                assertEquals(nulls, summary.nulls(), message);
            }
        }
        long wanted =
                partitioning.isEmpty()
                        ? Math.min(1, rows.limit(1).count())
                        : rows.select(
                                        partitioning.stream()
                                                .map(functions::col)
                                                .toArray(Column[]::new))
                                .distinct()
                                .count();
        assertEquals(wanted, partitions.size(), message);
    }

    private DataFrameReader read(SparkSession spark) {
        return spark.read().format("terrace").option("split.bytes", 1 + random.nextInt(4000));
    }

    private void append(Dataset<Row> rows) {
        rows.write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("block.rows", 1 + random.nextInt(50))
                .option("tier.c1", random.nextBoolean() ? "PMEM" : "DISK")
                .option("partition.by", String.join(", ", partitioning))
                .option("sort.by", random.nextBoolean() ? "" : "c0")
                .mode("append")
                .save(terrace());
    }

    /// The same rows, of which no plan leads back to others.
    private Dataset<Row> kept(SparkSession spark, Dataset<Row> rows) {
        String parquet = dir.resolve("model-" + statements.size()).toString();
        rows.write().parquet(parquet);
        return spark.read().parquet(parquet);
    }

    /// Changes the table, and returns what that makes of the model.
    private Dataset<Row> change(SparkSession spark, Dataset<Row> model) throws IOException {
        Dataset<Row> others = table.others(spark, random);
        others.createOrReplaceTempView("source");
        return switch (random.nextInt(8)) {
            case 0 -> insert(others, model);
            case 1 -> delete(spark, model);
            case 2 -> update(spark, model);
            case 3 -> replacePartitions(others, model);
            case 4 -> optimize(spark, model);
            default -> merge(spark, model, others);
        };
    }

    private Dataset<Row> insert(Dataset<Row> others, Dataset<Row> model) {
        statements.add("INSERT " + others.count());
        append(others);
        return model.unionAll(others);
    }

    /// Replaces the partitions of which there are other rows, all of a table without partitions.
    private Dataset<Row> replacePartitions(Dataset<Row> others, Dataset<Row> model) {
        statements.add("INSERT OVERWRITE " + others.count());
        others.write()
                .format("terrace")
                .option("partitionOverwriteMode", "dynamic")
                .mode("overwrite")
                .save(terrace());
        Column isReplaced =
                partitioning.stream()
                        .map(name -> col("old." + name).eqNullSafe(col("new." + name)))
                        .reduce(lit(true), Column::and);
        return model.as("old").join(others.as("new"), isReplaced, "left_anti").unionAll(others);
    }

    private Dataset<Row> optimize(SparkSession spark, Dataset<Row> model) throws IOException {
        Optimization all = Optimization.defaults().ofAllParts().targetBytes(1 << 18);
        Optimization wanted = random.nextBoolean() ? all : all.sortedBy("c0");
        statements.add(wanted.toString());
        wanted.run(spark, terrace());
        return model;
    }

    private void run(SparkSession spark, String statement) {
        statements.add(statement);
        spark.sql(statement.replace("TABLE", "terrace.`" + terrace() + "`"));
    }

    private String query(String condition) {
        return random.nextInt(3) == 0
                ? condition + " OR c0 IN (SELECT c0 FROM source WHERE c0 IS NOT NULL)"
                : condition;
    }

    private Dataset<Row> delete(SparkSession spark, Dataset<Row> model) {
        String condition = query(condition(""));
        run(spark, "DELETE FROM TABLE WHERE " + condition);
        return model.filter(not(coalesce(expr(condition), lit(false))));
    }

    private Dataset<Row> update(SparkSession spark, Dataset<Row> model) {
        String condition = query(condition(""));
        Map<String, String> values = new HashMap<>();
        for (int i = 0; i < 2; i++) {
            StructField field = table.column(random);
            values.put(field.name(), other(field, ""));
        }
        run(spark, "UPDATE TABLE SET " + assigned(values, "") + " WHERE " + condition);
        Dataset<Row> marked = model.withColumn("is_met", coalesce(expr(condition), lit(false)));
        return marked.select(
                columns(name ->
                        "if(is_met, " + values.getOrDefault(name, name) + ", " + name + ")"));
    }

    /// Makes an expression of a column from that of its name.
    private interface Expression {
        String of(String name);
    }

    private Column[] columns(Expression expression) {
        return Stream.of(table.fields())
                .map(StructField::name)
                .map(name -> expr(expression.of(name)).as(name))
                .toArray(Column[]::new);
    }

    private static String assigned(Map<String, String> values, String alias) {
        return values.entrySet().stream()
                .map(value -> alias + value.getKey() + " = " + value.getValue())
                .collect(Collectors.joining(", "));
    }

    /// A condition that a part of the rows meets.
    private String condition(String alias) {
        String name = alias + table.column(random).name();
        int number = random.nextInt(40) - 20;
        return switch (random.nextInt(5)) {
            case 0 -> name + " IS NULL";
            case 1 -> alias + "c0 < " + number;
            case 2 -> alias + "c0 IN (" + number + ", " + (number + 3) + ", NULL)";
            case 3 -> name + " IS NOT NULL AND " + alias + "c0 >= " + number;
            // Spark has no hashes of maps.
            default -> "pmod(hash(CAST(" + name + " AS STRING)), 3) = 1";
        };
    }

    /// Another value of a column.
    private static String other(StructField field, String alias) {
        String name = alias + field.name();
        return switch (field.dataType()) {
            case IntegerType _ -> name + " + 1";
            case StringType _ -> "concat(" + name + ", 'é')";
            case ArrayType _ -> "reverse(" + name + ")";
            case BooleanType _ -> "NOT " + name;
            default -> "NULL";
        };
    }

    /// A clause of a `MERGE`.
    ///
    /// @param when the rows that it is for
    /// @param values that it sets; null: it deletes
    private record Clause(String when, String condition, @Nullable Map<String, String> values) {}

    private Dataset<Row> merge(SparkSession spark, Dataset<Row> model, Dataset<Row> source) {
        List<Clause> clauses = new ArrayList<>();
        Map<String, String> all = new TreeMap<>();
        Stream.of(table.fields()).forEach(field -> all.put(field.name(), "s." + field.name()));
        StructField field = table.column(random);
        for (int i = random.nextInt(3); i > 0; i--) {
            clauses.add(
                    new Clause(
                            "MATCHED",
                            i == 1 ? "true" : condition("t."),
                            random.nextInt(3) == 0
                                    ? null
                                    : random.nextBoolean()
                                            ? all
                                            : Map.of(field.name(), "s." + field.name())));
        }
        if (clauses.isEmpty() || random.nextBoolean()) {
            clauses.add(
                    new Clause(
                            "NOT MATCHED", random.nextBoolean() ? "true" : condition("s."), all));
        }
        for (int i = random.nextInt(3); i > 0; i--) {
            clauses.add(
                    new Clause(
                            "NOT MATCHED BY SOURCE",
                            condition("t."),
                            random.nextBoolean()
                                    ? null
                                    : Map.of(field.name(), other(field, "t."))));
        }
        run(
                spark,
                "MERGE INTO TABLE t USING source s ON t.c0 = s.c0 "
                        + clauses.stream()
                                .map(RowChangesEqualityTest::inSql)
                                .collect(Collectors.joining(" ")));
        return merged(clauses, model, source);
    }

    private static String inSql(Clause clause) {
        String front = "WHEN " + clause.when + " AND " + clause.condition + " THEN ";
        Map<String, String> values = clause.values;
        if (values == null) {
            return front + "DELETE";
        }
        return clause.when.equals("NOT MATCHED")
                ? front
                        + "INSERT ("
                        + String.join(", ", values.keySet())
                        + ") VALUES ("
                        + String.join(", ", values.values())
                        + ")"
                : front + "UPDATE SET " + assigned(values, "t.");
    }

    /// What the clauses make of the model: the first one counts of those that are for a row.
    private Dataset<Row> merged(List<Clause> clauses, Dataset<Row> model, Dataset<Row> source) {
        StringBuilder which = new StringBuilder("CASE");
        List<String> deleting = new ArrayList<>(List.of("-1"));
        for (int i = 0; i < clauses.size(); i++) {
            Clause clause = clauses.get(i);
            String rows =
                    switch (clause.when) {
                        case "MATCHED" -> "in_t AND in_s";
                        case "NOT MATCHED" -> "in_t IS NULL";
                        default -> "in_s IS NULL";
                    };
            which.append(" WHEN " + rows + " AND (" + clause.condition + ") THEN " + i);
            if (clause.values == null) {
                deleting.add("" + i);
            }
        }
        return model.withColumn("in_t", lit(true))
                .as("t")
                .join(
                        source.withColumn("in_s", lit(true)).as("s"),
                        expr("t.c0 = s.c0"),
                        "full_outer")
                .withColumn("which", expr(which + " WHEN in_t THEN -2 ELSE -1 END"))
                .filter("which NOT IN (" + String.join(", ", deleting) + ")")
                .select(
                        columns(name ->
                                "CASE" + values(clauses, name) + " ELSE t." + name + " END"));
    }

    private static String values(List<Clause> clauses, String name) {
        StringBuilder values = new StringBuilder();
        for (int i = 0; i < clauses.size(); i++) {
            Map<String, String> of = clauses.get(i).values;
            if (of != null && of.containsKey(name)) {
                values.append(" WHEN which = " + i + " THEN " + of.get(name));
            }
        }
        return values.isEmpty() ? " WHEN false THEN t." + name : values.toString();
    }
}
