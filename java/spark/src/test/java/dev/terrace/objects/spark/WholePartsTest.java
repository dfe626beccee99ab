package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Strategy$;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// A `DELETE` that the manifest decides deletes what a query finds.
@ExtendWith(LocalSpark.class)
class WholePartsTest {
    private static final int CONDITIONS = 60;
    private static final int PARTS = 30;

    @TempDir private Path dir;

    private final SparkSession spark;
    private String table = "";

    WholePartsTest(SparkSession spark) {
        this.spark = spark;
    }

    @BeforeEach
    void nameTable() {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        table = "terrace.`" + dir + "`";
    }

    private Manifest manifest() throws IOException {
        return new ManifestLog(dir.toString(), new Configuration(false)).require(Manifest.TABLE);
    }

    private static List<String> names(Manifest manifest) {
        return manifest.parts().stream().map(Part::name).toList();
    }

    private void write(Dataset<Row> rows) {
        rows.write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("block.rows", 10)
                .mode("append")
                .save(dir.toString());
    }

    /// Some, or as many as `-Dterrace.seeds=100` says.
    static LongStream whatTheManifestKnowsIsWhatQueriesFind() {
        return LongStream.rangeClosed(1, Long.getLong("terrace.seeds", 3));
    }

    @ParameterizedTest
    @MethodSource
    void whatTheManifestKnowsIsWhatQueriesFind(long seed) throws IOException {
        Random random = new Random(seed);
        RandomTable values = new RandomTable(random);
        // Rows with the same first number are in the same part.
        write(values.rows(spark).repartition(PARTS, functions.col("c0")));
        Manifest manifest = manifest();
        List<Column> conditions =
                IntStream.range(0, CONDITIONS)
                        .mapToObj(i -> ParquetEqualityTest.condition(random, values, i % 3))
                        .toList();
        List<Map<Integer, List<Boolean>>> found = found(conditions);
        int decided = 0;
        for (int i = 0; i < CONDITIONS; i++) {
            Predicate predicate = predicate(conditions.get(i));
            WholeParts whole =
                    predicate == null
                            ? null
                            : WholeParts.of(
                                    new Predicate[] {predicate}, TerraceTable.schema(manifest));
            for (int number = 0; whole != null && number < manifest.parts().size(); number++) {
                Part part = manifest.parts().get(number);
                List<Boolean> areMet = found.get(i).get(number);
                String message = "seed " + seed + ", part " + number + ", " + conditions.get(i);
                assertEquals(part.rows(), areMet.size());
                assertTrue(!whole.has(part) || !areMet.contains(false), message);
                assertTrue(
                        TableScan.mayMatch(part, whole.conditions()) || !areMet.contains(true),
                        message);
                decided += whole.has(part) ? 1 : 0;
            }
        }
        assertTrue(manifest.parts().size() < 3 || decided > 0, "seed " + seed + ": none decided");
    }

    private @Nullable Predicate predicate(Column condition) {
        Dataset<Row> rows = spark.table(table).filter(condition);
        Filter filter = assertInstanceOf(Filter.class, rows.queryExecution().analyzed());
        return DataSourceV2Strategy$.MODULE$
                .translateFilterV2(filter.condition())
                .getOrElse(() -> null);
    }

    /// Whether the rows of each part meet each condition.
    private List<Map<Integer, List<Boolean>>> found(List<Column> conditions) {
        List<Column> columns = new ArrayList<>(List.of(functions.expr("cast(_row >> 32 as int)")));
        conditions.forEach(
                condition -> columns.add(functions.coalesce(condition, functions.lit(false))));
        List<Row> rows = spark.table(table).select(columns.toArray(Column[]::new)).collectAsList();
        return IntStream.rangeClosed(1, conditions.size())
                .mapToObj(i ->
                        rows.stream()
                                .collect(
                                        Collectors.groupingBy(
                                                row -> row.getInt(0),
                                                Collectors.mapping(
                                                        row -> row.getBoolean(i),
                                                        Collectors.toList()))))
                .toList();
    }

    private void delete(String condition) {
        spark.sql("DELETE FROM " + table + " WHERE " + condition);
    }

    @Test
    void partsGoWithoutBeingRead() throws IOException {
        write(spark.range(0, 100, 1, 4).selectExpr("id", "if(id < 50, null, 'late') name"));
        List<String> parts = names(manifest());
        // A reader of one would be told.
        PartStore.deleteTree(dir.resolve("parts"));
        delete("id < 25 AND name IS NULL");
        assertEquals(parts.subList(1, 4), names(manifest()));
        delete("id >= 75 OR id IN (1, 2)");
        assertEquals(parts.subList(1, 3), names(manifest()));
        delete("name IS NULL");
        assertEquals(parts.subList(2, 3), names(manifest()));
        delete("id = 7");
        assertEquals(4, manifest().number(), "there is none");
        delete("name like 'la%'");
        assertEquals(List.of(), manifest().parts());
        assertEquals(5, manifest().number());
        assertTrue(!Files.exists(dir.resolve("deletions")));
    }

    @Test
    void whatWasAppendedMeanwhileIsLookedAt() throws IOException {
        write(spark.range(0, 10, 1, 1).toDF());
        Manifest before = manifest();
        StructType schema = TerraceTable.schema(before);
        Predicate below20 = Objects.requireNonNull(predicate(functions.expr("id < 20L")));
        WholeParts parts = Objects.requireNonNull(WholeParts.of(new Predicate[] {below20}, schema));
        write(spark.range(10, 15, 1, 1).toDF());
        write(spark.range(20, 25, 1, 1).toDF());
        Manifest later = manifest();
        assertEquals(names(later).subList(2, 3), names(parts.without(later, before, "DELETE")));
        write(spark.range(15, 25, 1, 1).toDF());
        String message =
                assertThrows(
                                CommitConflictException.class,
                                () -> parts.without(manifest(), before, "DELETE"))
                        .getMessage();
        assertTrue(message.contains("run the statement again"), message);
        delete("id < 20");
        assertEquals(10, spark.table(table).count());
    }
}
