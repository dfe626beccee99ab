package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.filter.AlwaysTrue;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// Optimizations of tables of all kinds, and those that meet a vacuum or the end of their table.
@ExtendWith(LocalSpark.class)
class OptimizationTablesTest {
    private static final Configuration CONFIGURATION = new Configuration(false);

    @TempDir private Path dir;

    private final SparkSession spark;
    private String table = "";

    OptimizationTablesTest(SparkSession spark) {
        this.spark = spark;
    }

    @BeforeEach
    void nameTable() {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        table = "terrace.`" + dir.resolve("table") + "`";
    }

    private void append(Map<String, String> options, String... columns) {
        spark.range(0, 100, 1, 1)
                .selectExpr(columns)
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .options(options)
                .mode("append")
                .save(dir.resolve("table").toString());
    }

    private ManifestLog log() throws IOException {
        return new ManifestLog(dir.resolve("table").toString(), CONFIGURATION);
    }

    private Manifest manifest() throws IOException {
        return log().require(Manifest.TABLE);
    }

    private Row call(String catalog, String others) {
        String path = dir.resolve("table").toString();
        return spark.sql("CALL " + catalog + ".system.optimize('" + path + "'" + others + ")")
                .first();
    }

    private List<String> rows() {
        return ParquetEqualityTest.sorted(spark.sql("SELECT * FROM " + table));
    }

    private static Part part(String name, long rows) {
        return new Part(name, null, null, List.of(), rows, 1000, List.of());
    }

    private static List<RewritePlan.Group> groups(Optimization wanted, List<Part> parts) {
        String schema = new StructType().add("id", "long").json();
        return RewritePlan.of(new Manifest(1, Manifest.TABLE, schema, Map.of(), parts), wanted)
                .groups();
    }

    /// Else no single rows of it could be deleted or updated any more.
    @Test
    void noPartGetsMoreRowsThanIdsCount() {
        List<Part> parts = IntStream.range(0, 4).mapToObj(i -> part("part" + i, 1L << 30)).toList();
        for (RewritePlan.Group group : groups(Optimization.defaults(), parts)) {
            assertEquals(2, group.parts().size());
            assertEquals(1, group.tasks());
        }
        assertEquals(2, groups(Optimization.defaults().sortedBy("id"), parts).getFirst().tasks());
        List<Part> many = List.of(part("many", 5L << 30));
        assertEquals(3, groups(Optimization.defaults().ofAllParts(), many).getFirst().tasks());
    }

    @Test
    void columnsMayHaveAnyNames() {
        String[] columns = {"id % 3 _row", "id `a.b``c`", "id % 7 `__row`", "id % 5 `null`"};
        append(Map.of(), columns);
        append(Map.of(), columns);
        spark.sql("DELETE FROM " + table + " WHERE `a.b``c` < 10 AND _row < 2");
        List<String> before = rows();
        assertEquals(186, before.size());
        String sort = ", sort_by => array('_ROW', 'a.b`c'), all_parts => true";
        assertEquals(2, call("terrace", sort).getInt(0));
        assertEquals(before, rows());
        assertEquals(
                before.size(),
                spark.sql("SELECT ___row FROM " + table + " WHERE ___row >= 0").count());
    }

    /// Spark knows the types of these only after it has looked at them more than once.
    @Test
    void argumentsMayBeExpressions() {
        append(Map.of(), "id");
        append(Map.of(), "id");
        String others =
                ", min_fill => 1 - 0.5, target_bytes => 128 * 1048576L,"
                        + " sort_by => array(concat('i', 'd'), CAST('id' AS VARCHAR(9)))";
        assertEquals(2, call("terrace", others).getInt(0));
        assertEquals(200, rows().size());
        assertTrue(
                spark.sql("DESCRIBE PROCEDURE terrace.system.optimize")
                        .collectAsList()
                        .toString()
                        .contains("small parts"));
    }

    @Test
    void theCatalogMayHaveAnyName() {
        spark.conf().set("spark.sql.catalog.mine", TerraceCatalog.class.getName());
        append(Map.of(), "id");
        append(Map.of(), "id");
        assertEquals(2, call("mine", "").getInt(0));
        assertEquals(
                0,
                spark.sql("CALL mine.SYSTEM.Vacuum('" + dir.resolve("table") + "')")
                        .first()
                        .getInt(0));
        assertEquals(200, rows().size());
    }

    @Test
    void aTableWithoutRowsStaysAsItIs() throws IOException {
        spark.sql("CREATE TABLE " + table + " (id BIGINT)");
        for (String others : List.of("", ", all_parts => true, sort_by => array('id')")) {
            assertEquals("[0,0,0,0,0]", call("terrace", others).toString());
        }
        append(Map.of(), "id");
        long number = manifest().number();
        assertEquals("[0,0,0,0,0]", call("terrace", "").toString());
        assertEquals(number, manifest().number(), "one part is not joined with any");
        assertEquals(1, call("terrace", ", all_parts => true").getInt(2));
        spark.sql("DELETE FROM " + table + " WHERE id >= 0");
        assertEquals("[0,0,0,0,0]", call("terrace", ", all_parts => true").toString());
        assertEquals(List.of(), rows());
    }

    @Test
    void objectsAreNoTable() throws IOException {
        String directory = dir.resolve("table").toString();
        DurableRDD.save(
                JavaSparkContext.fromSparkContext(spark.sparkContext())
                        .parallelize(List.of(Point.of(1), Point.of(2)), 2),
                Point.class,
                DurablePoint.class,
                directory,
                PartitionOptions.defaults());
        assertThrows(
                IllegalArgumentException.class,
                () -> Optimization.defaults().run(spark, directory));
    }

    @Test
    void newPartsLieWhereTheTableSays() throws IOException {
        Map<String, String> options =
                Map.of(
                        "pmem",
                        Files.createDirectory(dir.resolve("pmem")).toString(),
                        "disk",
                        Files.createDirectory(dir.resolve("disk")).toString(),
                        "tier.name",
                        "DISK",
                        "block.rows",
                        "7");
        append(options, "id", "repeat('name', 100) name");
        append(options, "id", "repeat('other', 100) name");
        Map<String, String> before = manifest().options();
        assertEquals(1, call("terrace", ", sort_by => array('name')").getInt(2));
        assertEquals(before, manifest().options());
        Part part = manifest().parts().getFirst();
        assertEquals(options.get("pmem"), part.pmem());
        assertEquals(options.get("disk"), part.disk());
        for (String place : List.of("pmem", "disk")) {
            try (Stream<Path> files = Files.walk(dir.resolve(place))) {
                assertTrue(files.anyMatch(file -> file.toString().contains(part.name())), place);
            }
        }
        assertEquals(200, rows().size());
    }

    /// As SPARK.md says, with the way out.
    @Test
    void aValueThatTheExtentOfTheTableDoesNotHoldStaysWhereItIs() throws IOException {
        append(Map.of(), "id", "'short' name");
        append(Map.of("extent", "8388608"), "id", "IF(id = 0, repeat('long ', 400000), '') name");
        Manifest before = manifest();
        Exception refused = assertThrows(Exception.class, () -> call("terrace", ""));
        assertTrue(refused.getMessage().contains("set the option extent"), refused::getMessage);
        assertEquals(before.names(), manifest().names());
        assertEquals(List.of(), log().root().child("jobs").list());
        spark.table(table)
                .limit(3)
                .write()
                .format("terrace")
                .option("extent", 8 << 20)
                .mode("overwrite")
                .save(dir.resolve("table").toString());
        assertEquals(1, call("terrace", ", all_parts => true").getInt(2));
        assertEquals(3, rows().size());
    }

    private RewriteWrite write() throws IOException {
        Manifest before = manifest();
        TableOptions options = new TableOptions(before.options());
        PartStore store = new PartStore(log().root(), options.partitions(), CONFIGURATION);
        RewriteWrite write =
                new RewriteWrite(
                        log(),
                        store,
                        before,
                        options,
                        RewritePlan.of(before, Optimization.defaults()));
        assertTrue(write.createBatchWriterFactory(() -> 1) != null);
        return write;
    }

    private static void expectConflict(RewriteWrite write, long rows, String why) {
        WriterCommitMessage[] written = {new TableWrite.Written(List.of(part("made", rows)))};
        UncheckedIOException refused =
                assertThrows(UncheckedIOException.class, () -> write.commit(written));
        CommitConflictException conflict =
                assertInstanceOf(CommitConflictException.class, refused.getCause());
        assertTrue(conflict.getMessage().contains(why), conflict::getMessage);
    }

    @Test
    void whatAVacuumOrADropHasRemovedIsNotCommitted() throws IOException {
        append(Map.of(), "id");
        append(Map.of(), "id");
        RewriteWrite write = write();
        Snapshots.vacuum(log(), CONFIGURATION, Instant.now().plus(Duration.ofDays(1)));
        expectConflict(write, 200, "has been removed before it was complete");
        assertEquals(200, rows().size());
        write = write();
        spark.sql("DROP TABLE " + table);
        expectConflict(write, 200, "dropped the table");
        append(Map.of(), "id");
        assertEquals(100, rows().size());
        append(Map.of(), "id");
        write = write();
        spark.sql("INSERT OVERWRITE " + table + " SELECT * FROM range(5)");
        expectConflict(write, 200, "changed or removed parts");
        assertEquals(5, rows().size());
    }

    @Test
    void tooFewOrTooManyRowsAreNotCommitted() throws IOException {
        append(Map.of(), "id");
        append(Map.of(), "id");
        for (long rows : new long[] {199, 201}) {
            RewriteWrite write = write();
            WriterCommitMessage[] written = {new TableWrite.Written(List.of(part("made", rows)))};
            assertThrows(IllegalStateException.class, () -> write.commit(written));
            write.abort(written);
        }
        assertEquals(2, manifest().number());
        assertEquals(200, rows().size());
    }

    /// A `DELETE` of whole parts that began before they were joined with others.
    @Test
    void wholePartsThatWereJoinedAreNotDeleted() throws IOException {
        append(Map.of(), "id");
        append(Map.of(), "id + 100 id");
        Manifest before = manifest();
        Predicate[] low = {
            new Predicate(
                    "<", new Expression[] {TableColumns.reference("id"), Expressions.literal(100L)})
        };
        WholeParts delete = WholeParts.of(low, TerraceTable.schema(before));
        assertTrue(delete != null && delete.decides(before) && delete.changes(before));
        call("terrace", "");
        assertThrows(
                CommitConflictException.class, () -> delete.without(manifest(), before, "DELETE"));
        Predicate[] all = {new AlwaysTrue()};
        WholeParts every = WholeParts.of(all, TerraceTable.schema(before));
        assertTrue(
                every == null || every.without(manifest(), before, "DELETE").parts().isEmpty(),
                "all rows go, wherever they are");
        assertEquals(200, rows().size());
    }
}
