package dev.terrace.objects.spark;

import static org.apache.spark.sql.functions.expr;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkException;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import scala.collection.immutable.Map;

/// `DELETE`, `UPDATE`, `MERGE` and `TRUNCATE`: each of their clauses, and what becomes of files.
@ExtendWith(LocalSpark.class)
class RowChangesTest {
    @TempDir private Path dir;

    private final SparkSession spark;
    private String table = "";

    RowChangesTest(SparkSession spark) {
        this.spark = spark;
    }

    /// 100 rows in two parts, with blocks of 10.
    @BeforeEach
    void write() {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        table = "terrace.`" + dir + "`";
        rows().write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("block.rows", 10)
                .save(dir.toString());
    }

    private Dataset<Row> rows() {
        return spark.range(0, 100, 1, 2)
                .selectExpr("id", "concat('name ', id) name", "id % 10 digit");
    }

    private void run(String statement) {
        spark.sql(statement.replace("TARGET", table));
    }

    private Dataset<Row> read() {
        return spark.read().format("terrace").load(dir.toString());
    }

    private static void expect(Dataset<Row> rows, long count, long sum) {
        assertEquals(count, rows.count());
        assertEquals(count, rows.collectAsList().size());
        assertEquals(sum, rows.selectExpr("coalesce(sum(id), 0)").first().getLong(0));
    }

    private Manifest manifest() throws IOException {
        return new ManifestLog(dir.toString(), new Configuration(false)).require(Manifest.TABLE);
    }

    private List<String> names(String directory) throws IOException {
        try (var files = Files.list(dir.resolve(directory))) {
            return files.map(path -> path.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void deletedRowsAreNoLongerThere() throws IOException {
        run("DELETE FROM TARGET WHERE digit = 3");
        expect(read(), 90, 4950 - 480);
        run("DELETE FROM TARGET WHERE id < 20 OR name = 'name 77'");
        expect(read(), 71, 4950 - 480 - 190 + 3 + 13 - 77);
        run("DELETE FROM TARGET WHERE id IN (SELECT max(id) FROM TARGET)");
        expect(read(), 70, 4950 - 480 - 190 + 3 + 13 - 77 - 99);
        assertEquals(4, manifest().number());
        assertEquals(2, manifest().parts().size(), "parts are as they were");
        assertEquals(100, manifest().parts().stream().mapToLong(Part::rows).sum());
        assertEquals(70, manifest().rows());
    }

    @Test
    void aStatementThatMeetsNoRowCommitsNothing() throws IOException {
        run("DELETE FROM TARGET WHERE id > 1000");
        run("DELETE FROM TARGET WHERE false");
        run("UPDATE TARGET SET id = 1 WHERE digit = 11");
        run("MERGE INTO TARGET t USING (SELECT 500 id) s ON t.id = s.id WHEN MATCHED THEN DELETE");
        assertEquals(1, manifest().number());
        assertEquals(List.of(), names("jobs"));
        assertFalse(Files.exists(dir.resolve("deletions")));
    }

    @Test
    void rowsOfAVersionAreNotChanged() throws IOException {
        read().createOrReplaceTempView("all_rows");
        spark.sql("SELECT * FROM " + table + " VERSION AS OF 1").createOrReplaceTempView("first");
        run("INSERT INTO TARGET VALUES (200, 'late', 0)");
        for (String view : List.of("all_rows", "first")) {
            for (String statement :
                    List.of(
                            "DELETE FROM " + view,
                            "DELETE FROM " + view + " WHERE id < 50",
                            "DELETE FROM " + view + " WHERE digit = 3")) {
                Exception refused = assertThrows(Exception.class, () -> spark.sql(statement));
                assertTrue(
                        refused.getMessage().contains("name the table itself to change them"),
                        refused::getMessage);
            }
            // Spark knows no such statements of views.
            assertThrows(
                    Exception.class, () -> spark.sql("UPDATE " + view + " SET digit = 0"), view);
        }
        assertEquals(2, manifest().number());
        expect(read(), 101, 4950 + 200);
        spark.sql("CREATE OR REPLACE TEMPORARY VIEW present AS SELECT * FROM " + table);
        run("DELETE FROM TARGET WHERE id = 200");
        expect(spark.sql("SELECT * FROM present"), 100, 4950);
    }

    @Test
    void aTableThatIsNotThereIsSaidNotToBe() {
        String absent = "terrace.path.`" + dir.resolve("absent") + "`";
        for (String statement :
                List.of(
                        "TRUNCATE TABLE " + absent,
                        "MERGE INTO "
                                + absent
                                + " t USING (SELECT 1 id) s ON true WHEN MATCHED THEN DELETE")) {
            Exception refused = assertThrows(Exception.class, () -> spark.sql(statement));
            assertTrue(
                    refused.getMessage().contains("is not there yet: write to it first"),
                    refused::getMessage);
        }
        assertFalse(Files.exists(dir.resolve("absent")));
    }

    @Test
    void conditionsWithNullsOfAnyTypeAreMet() {
        Path binary = dir.resolve("binary");
        spark.sql("SELECT X'61' b UNION ALL SELECT X'62' UNION ALL SELECT NULL")
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .save(binary.toString());
        String its = "terrace.`" + binary + "`";
        assertEquals(1, spark.sql("SELECT * FROM " + its + " WHERE b IN (X'61', NULL)").count());
        spark.sql("DELETE FROM " + its + " WHERE b IN (X'61', NULL)");
        assertEquals(2, spark.sql("SELECT * FROM " + its).count());
    }

    @Test
    void aCatalogsEntryHasNoOptionsThatNothingFollows() {
        for (String option : List.of("versionAsOf", "isolation", "split.bytes")) {
            String name = "entry_" + option.replace('.', '_');
            spark.sql("DROP TABLE IF EXISTS " + name);
            Exception refused =
                    assertThrows(
                            Exception.class,
                            () -> {
                                spark.sql(
                                        "CREATE TABLE "
                                                + name
                                                + " USING terrace OPTIONS ('"
                                                + option
                                                + "' '1') LOCATION '"
                                                + dir
                                                + "'");
                                spark.table(name).count();
                            });
            assertTrue(
                    refused.getMessage()
                            .toLowerCase(Locale.ROOT)
                            .contains(option.toLowerCase(Locale.ROOT) + " has no effect"),
                    refused::getMessage);
        }
    }

    @Test
    void aPartOfWhichAllRowsAreDeletedIsOneNoLonger() throws IOException {
        run("DELETE FROM TARGET WHERE id < 40");
        assertEquals(2, manifest().parts().size());
        run("DELETE FROM TARGET WHERE id + 0 < 50");
        assertEquals(1, manifest().parts().size());
        assertFalse(manifest().hasDeletions());
        assertEquals(1, names("deletions").size(), "that of the earlier version");
        expect(read(), 50, 4950 - 1225);
    }

    @Test
    void updatedRowsHaveTheirNewValues() {
        run("UPDATE TARGET SET name = upper(name), id = id + 1000 WHERE digit = 3");
        expect(read(), 100, 4950 + 10_000);
        assertEquals(10, read().filter("name like 'NAME%' and id > 1000").count());
        run("UPDATE TARGET SET digit = (SELECT max(id) FROM TARGET)");
        assertEquals(100, read().filter("digit = 1093").count());
    }

    @Test
    void mergeHasAllItsClauses() {
        spark.range(90, 110).selectExpr("id", "id % 10 digit").createOrReplaceTempView("source");
        run(
                "MERGE INTO TARGET t USING source s ON t.id = s.id"
                        + " WHEN MATCHED AND s.digit = 0 THEN DELETE"
                        + " WHEN MATCHED THEN UPDATE SET name = 'matched'"
                        + " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')"
                        + " WHEN NOT MATCHED BY SOURCE AND t.id < 5 THEN UPDATE SET name = 'alone'"
                        + " WHEN NOT MATCHED BY SOURCE AND t.id < 50 THEN DELETE");
        assertEquals(
                "[[alone,5], [matched,9], [name,40], [new,10]]",
                read().groupBy(expr("split(name, ' ')[0]").as("n"))
                        .count()
                        .orderBy("n")
                        .collectAsList()
                        .toString());
        assertEquals(10, read().filter("digit is null").count());
        run(
                "MERGE INTO TARGET t USING source s ON t.id = s.id"
                        + " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'again')");
        assertEquals(1, read().filter("name = 'again'").count());
    }

    @Test
    void aTableIsMergedIntoItself() {
        run(
                "MERGE INTO TARGET t USING TARGET s ON t.id = s.id + 90"
                        + " WHEN MATCHED THEN UPDATE SET name = s.name"
                        + " WHEN NOT MATCHED AND s.id < 20 THEN INSERT (id) VALUES (s.id + 1000)");
        assertEquals(10, read().filter("id >= 90 and id < 100 and name < 'name 9a'").count());
        assertEquals(2, read().filter("name = 'name 7'").count());
        expect(read(), 110, 4950 + 10_000 + 145);
    }

    @Test
    void aMergeIsWrittenInJavaAsWell() {
        spark.range(95, 105)
                .toDF("key")
                .mergeInto(table, expr("id = key"))
                .whenMatched()
                .delete()
                .whenNotMatched()
                .insert(new Map.Map1<>("id", expr("key")))
                .whenNotMatchedBySource(expr("id < 10"))
                .update(new Map.Map1<>("name", expr("'alone'")))
                .merge();
        expect(read(), 100, 4950 + 5 * 5);
        assertEquals(10, read().filter("name = 'alone'").count());
    }

    @Test
    void plansSayWhatAStatementReadsAndWrites() {
        String plan =
                spark.sql("EXPLAIN DELETE FROM " + table + " WHERE digit = 3").first().getString(0);
        assertTrue(plan.contains("DELETE of " + table), plan);
        assertTrue(plan.contains("struct<digit:bigint,_row:bigint>, 2 parts, blocks where"), plan);
    }

    @Test
    void severalSourceRowsThatMatchOneRowAreAnError() throws IOException {
        spark.range(0, 4).selectExpr("id % 2 id").createOrReplaceTempView("source");
        String merge = "MERGE INTO TARGET t USING source s ON t.id = s.id WHEN MATCHED THEN ";
        Exception refused =
                assertThrows(
                        SparkRuntimeException.class,
                        () -> run(merge + "UPDATE SET name = 'twice'"));
        assertTrue(refused.getMessage().contains("MERGE_CARDINALITY_VIOLATION"), refused::toString);
        expect(read(), 100, 4950);
        assertEquals(2, names("parts").size());
        assertEquals(List.of(), names("jobs"));
        // It makes no difference how often a row is deleted.
        run(merge + "DELETE");
        expect(read(), 98, 4949);
    }

    @Test
    void aTableIsEmptied() throws IOException {
        run("DELETE FROM TARGET");
        expect(read(), 0, 0);
        run("INSERT INTO TARGET VALUES (1, 'one', 1)");
        expect(read(), 1, 1);
        run("TRUNCATE TABLE TARGET");
        expect(read(), 0, 0);
        assertEquals(0, manifest().parts().size());
    }

    @Test
    void tablesOfAnyCatalogAreChanged() {
        spark.conf().set("spark.sql.catalog.mine", TerraceCatalog.class.getName());
        table = "mine.`" + dir + "`";
        run("DELETE FROM TARGET WHERE digit = 3");
        expect(read(), 90, 4950 - 480);
        spark.sql("CREATE TABLE numbers USING terrace LOCATION '" + dir + "'");
        try {
            table = "spark_catalog.default.numbers";
            run("DELETE FROM TARGET WHERE digit = 4");
            run("UPDATE TARGET SET id = -id WHERE digit = 5");
            run(
                    "MERGE INTO TARGET t USING (SELECT 1006 id) s ON t.id = s.id"
                            + " WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
                            + " WHEN NOT MATCHED BY SOURCE AND t.digit = 6 THEN DELETE");
        } finally {
            spark.sql("DROP TABLE numbers");
        }
        expect(read(), 71, 4950 - 480 - 490 - 2 * 500 - 510 + 1006);
    }

    @Test
    void columnsMayHaveTheNameOfTheIds() {
        run("CREATE OR REPLACE TABLE TARGET AS SELECT id _row, id % 3 __ROW FROM range(10)");
        run("UPDATE TARGET SET _row = -_row WHERE __row = 1");
        run("DELETE FROM TARGET WHERE _row = -4");
        assertEquals("[[25]]", spark.sql("SELECT sum(_row) FROM " + table).collectAsList() + "");
    }

    @Test
    void countsAndBoundsAreThoseOfTheRowsThatAreThere() {
        run("DELETE FROM TARGET WHERE id < 10 OR id = 99");
        Dataset<Row> count = read().selectExpr("count(*)");
        assertEquals("[89]", count.first().toString());
        assertTrue(plan(count).contains("of its manifest"), plan(count));
        Dataset<Row> bounds = read().selectExpr("min(id)", "max(id)", "count(id)");
        assertEquals("[10,98,89]", bounds.first().toString());
        assertFalse(plan(bounds).contains("of its manifest"), plan(bounds));
        assertEquals(89, read().queryExecution().optimizedPlan().stats().rowCount().get().toLong());
        assertEquals(12, read().limit(12).collectAsList().size());
    }

    private static String plan(Dataset<Row> query) {
        return query.queryExecution().executedPlan().toString();
    }

    @Test
    void blocksWithoutRowsAreNotRead() {
        run("DELETE FROM TARGET WHERE id < 30");
        Dataset<Row> rows = read().filter("digit = 3").select("name");
        assertEquals(7, rows.collectAsList().size());
        var metrics = rows.queryExecution().executedPlan().collectLeaves().head().metrics();
        assertEquals(7, metrics.apply("blocksRead").value());
        assertEquals(3, metrics.apply("blocksSkipped").value());
    }

    @Test
    void anEarlierVersionShowsItsRows(JavaSparkContext context) throws IOException {
        Dataset<Row> first = read();
        run("DELETE FROM TARGET WHERE digit = 3");
        Dataset<Row> second = read();
        run("UPDATE TARGET SET id = 0 WHERE digit = 4");
        run("DELETE FROM TARGET WHERE id = 0");
        expect(first, 100, 4950);
        expect(second, 90, 4950 - 480);
        expect(read(), 79, 4950 - 480 - 490);
        assertEquals(
                90,
                spark.sql("SELECT * FROM " + table + " VERSION AS OF 2").collectAsList().size());
        assertEquals(3, names("deletions").size());
        assertEquals(
                new Snapshots.Removed(0, 0),
                Snapshots.vacuum(context, dir.toString(), Duration.ofHours(1)));
        assertEquals(3, names("deletions").size());
        assertEquals(
                new Snapshots.Removed(3, 2),
                Snapshots.vacuum(context, dir.toString(), Duration.ofSeconds(-1)));
        assertEquals(2, names("deletions").size());
        expect(read(), 79, 4950 - 480 - 490);
        String gone = assertThrows(SparkException.class, second::collectAsList).getMessage();
        assertTrue(gone.contains("deletions") && gone.contains("a vacuum has removed it"), gone);
        run("DROP TABLE TARGET");
        assertFalse(Files.exists(dir));
    }

    @Test
    void aTableThatIsWrittenAnewHasNoDeletions() throws IOException {
        run("DELETE FROM TARGET WHERE digit = 3");
        assertTrue(manifest().hasDeletions());
        run("INSERT OVERWRITE TARGET SELECT * FROM TARGET");
        assertFalse(manifest().hasDeletions());
        expect(read(), 90, 4950 - 480);
    }

    @Test
    void aDamagedFileOfDeletionsIsNamed() throws IOException {
        run("DELETE FROM TARGET WHERE digit = 3");
        Path file = dir.resolve("deletions").resolve(names("deletions").getFirst());
        byte[] bytes = Files.readAllBytes(file);
        bytes[bytes.length - 1] ^= 1;
        Files.write(file, bytes);
        String message = assertThrows(SparkException.class, () -> read().collect()).getMessage();
        assertTrue(
                message.contains("PoolDamagedException") && message.contains(file.toString()),
                message);
        // Neither is it taken for an earlier one by who deletes more.
        assertThrows(SparkException.class, () -> run("DELETE FROM TARGET WHERE digit = 4"));
        assertEquals(2, manifest().number());
        assertEquals(90, read().count(), "as the manifest says");
    }

    @Test
    void aRemoteTableIsChanged(@TempDir Path here) throws IOException {
        String remote = "remote:" + dir.resolve("remote");
        rows().write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("pmem", here.toString())
                .save(remote);
        table = "terrace.`" + remote + "`";
        run("UPDATE TARGET SET id = id + 1000 WHERE digit = 3");
        run("DELETE FROM TARGET WHERE digit = 4");
        expect(spark.read().format("terrace").load(remote), 90, 4950 + 10_000 - 490);
        assertEquals(2, names("remote/deletions").size());
        assertEquals(List.of(), names("remote/jobs"));
    }
}
