package dev.terrace.objects.spark;

import static org.apache.spark.sql.functions.lit;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.PoolDamagedException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.apache.spark.SparkException;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.types.DataTypes;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/// Tables: how they are written, and what each save mode does.
@ExtendWith(LocalSpark.class)
class TableTest {
    /// What a function appends to: it is given no more than a value.
    private static volatile String appendTo = "";

    @TempDir private Path dir;

    private static Dataset<Row> numbers(SparkSession spark, int from, int to) {
        return spark.range(from, to, 1, 2)
                .selectExpr("id", "cast(id as string) name", "id * 0.5D half");
    }

    private void write(Dataset<Row> rows, SaveMode mode) {
        rows.write().format("terrace").option("extent", 1 << 20).mode(mode).save(dir.toString());
    }

    private Dataset<Row> read(SparkSession spark) {
        return spark.read().format("terrace").load(dir.toString());
    }

    private static void expect(Dataset<Row> expected, Dataset<Row> table) {
        assertEquals(expected.orderBy("id").collectAsList(), table.orderBy("id").collectAsList());
    }

    private List<String> parts() throws IOException {
        try (var files = Files.list(dir.resolve("parts"))) {
            return files.map(path -> path.getFileName().toString()).toList();
        }
    }

    @Test
    void eachSaveModeDoesAsItSays(SparkSession spark) {
        write(numbers(spark, 0, 10), SaveMode.ErrorIfExists);
        expect(numbers(spark, 0, 10), read(spark));
        assertThrows(
                AnalysisException.class, () -> write(numbers(spark, 0, 5), SaveMode.ErrorIfExists));
        write(numbers(spark, 0, 5), SaveMode.Ignore);
        expect(numbers(spark, 0, 10), read(spark));
        write(numbers(spark, 10, 20), SaveMode.Append);
        expect(numbers(spark, 0, 20), read(spark));
        write(numbers(spark, 5, 8), SaveMode.Overwrite);
        expect(numbers(spark, 5, 8), read(spark));
    }

    @Test
    void anAbsentTableIsMadeByAppendAndByOverwrite(SparkSession spark) {
        write(numbers(spark, 0, 5), SaveMode.Append);
        expect(numbers(spark, 0, 5), read(spark));
        spark.sql("DROP TABLE terrace.`" + dir + "`");
        assertFalse(Files.exists(dir));
        write(numbers(spark, 5, 8), SaveMode.Overwrite);
        expect(numbers(spark, 5, 8), read(spark));
    }

    @Test
    void readersKeepWhatTheyBeganWith(SparkSession spark, JavaSparkContext context)
            throws IOException {
        write(numbers(spark, 0, 10), SaveMode.Append);
        Dataset<Row> before = read(spark);
        write(before.filter("id < 5"), SaveMode.Overwrite);
        expect(numbers(spark, 0, 5), read(spark));
        expect(numbers(spark, 0, 10), before);
        expect(
                numbers(spark, 0, 10),
                spark.read().format("terrace").option("versionAsOf", 1).load(dir.toString()));
        assertEquals(0, Snapshots.vacuum(context, dir.toString(), Duration.ofHours(1)).parts());
        assertEquals(
                new Snapshots.Removed(1, 2),
                Snapshots.vacuum(context, dir.toString(), Duration.ofSeconds(-1)));
        expect(numbers(spark, 0, 5), read(spark));
        String message = assertThrows(SparkException.class, () -> before.collect()).toString();
        assertTrue(message.contains("a vacuum has removed it"), message);
        message =
                assertThrows(
                                IllegalArgumentException.class,
                                () ->
                                        spark.read()
                                                .format("terrace")
                                                .option("versionAsOf", 1)
                                                .load(dir.toString()))
                        .getMessage();
        assertTrue(message.contains("no version 1"), message);
    }

    @Test
    void aTableIsReadAsItWasAtATime(SparkSession spark) throws IOException {
        write(numbers(spark, 0, 3), SaveMode.Append);
        write(numbers(spark, 3, 6), SaveMode.Append);
        Files.setLastModifiedTime(
                dir.resolve("manifests").resolve("0000000000000000001"),
                FileTime.from(Instant.parse("2001-01-01T00:00:00Z")));
        Dataset<Row> then =
                spark.read()
                        .format("terrace")
                        .option("timestampAsOf", "2001-01-03")
                        .load(dir.toString());
        expect(numbers(spark, 0, 3), then);
        assertThrows(
                IllegalArgumentException.class,
                () ->
                        spark.read()
                                .format("terrace")
                                .option("timestampAsOf", "2000-01-01")
                                .load(dir.toString()));
    }

    @Test
    void columnsAreAppendedByTheirNames(SparkSession spark) {
        write(numbers(spark, 0, 5), SaveMode.Append);
        write(numbers(spark, 5, 6).select("half", "id", "name"), SaveMode.Append);
        expect(numbers(spark, 0, 6), read(spark));
        assertThrows(
                AnalysisException.class,
                () -> write(numbers(spark, 0, 5).withColumn("more", lit(1)), SaveMode.Append));
        assertThrows(
                AnalysisException.class,
                () -> write(numbers(spark, 0, 5).withColumn("id", lit("one")), SaveMode.Overwrite));
        expect(numbers(spark, 0, 6), read(spark));
        // Spark's own rule: columns that are missing are null.
        write(numbers(spark, 6, 7).select("id"), SaveMode.Append);
        assertEquals("[6,null,null]", read(spark).filter("id = 6").first().toString());
    }

    @Test
    void aTypeThatCannotBeStoredIsRefusedWithItsColumn(SparkSession spark) {
        for (String column :
                List.of(
                        "parse_json('1')",
                        "map(1, parse_json('1'))",
                        "named_struct('a', 1, 'b', parse_json('1'))",
                        "array(named_struct('a', parse_json('1')))")) {
            Dataset<Row> rows = spark.range(1).selectExpr("id", column + " odd");
            String message =
                    assertThrows(
                                    IllegalArgumentException.class,
                                    () -> write(rows, SaveMode.Append),
                                    column)
                            .getMessage();
            assertTrue(message.startsWith("column odd: values of type "), message);
        }
        assertFalse(Files.exists(dir.resolve("manifests")));
    }

    @Test
    void optionsThatCannotBeAreRefused(SparkSession spark) {
        for (List<String> option :
                List.of(
                        List.of("tier.nobody", "PMEM", "the table has no column nobody"),
                        List.of("tier.id", "REMOTE", "none of the tiers"),
                        List.of("extent", "many", "is no number"),
                        List.of("extent", "1000", "power of two"),
                        List.of("block.rows", "0", "has from 1 to"),
                        List.of("split.bytes", "0", "1 byte at least"),
                        List.of("isolation", "none", "is neither serializable nor snapshot"),
                        List.of("pmem", "here", "is not absolute"),
                        List.of("tier.nmae", "PMEM", "It has, the nearest first: name, "),
                        List.of(
                                "block.row",
                                "10",
                                "there is no option block.row. There are, the nearest first:"
                                        + " block.rows, "),
                        List.of("blockRows", "10", "nearest first: block.rows, "),
                        List.of("tiers.id", "DISK", "nearest first: tier.COLUMN, "),
                        List.of("extents", "1048576", "nearest first: extent, "),
                        List.of("x".repeat(100_000), "1", "x".repeat(60) + "..."))) {
            Exception refused =
                    assertThrows(
                            IllegalArgumentException.class,
                            () ->
                                    numbers(spark, 0, 1)
                                            .write()
                                            .format("terrace")
                                            .option(option.get(0), option.get(1))
                                            .mode("append")
                                            .save(dir.toString()));
            assertTrue(refused.getMessage().contains(option.get(2)), refused.getMessage());
        }
        assertThrows(IllegalArgumentException.class, () -> spark.read().format("terrace").load());
        for (List<String> option :
                List.of(
                        List.of("versionAs", "nearest first: versionAsOf, "),
                        List.of("splitbytes", "nearest first: split.bytes, "))) {
            String refused =
                    assertThrows(
                                    IllegalArgumentException.class,
                                    () ->
                                            spark.read()
                                                    .format("terrace")
                                                    .option(option.get(0), "1")
                                                    .load(dir.toString()))
                            .getMessage();
            assertTrue(refused.contains(option.get(1)), refused);
        }
        String misspelt =
                assertThrows(
                                IllegalArgumentException.class,
                                () ->
                                        spark.sql(
                                                "CREATE TABLE terrace.`"
                                                        + dir
                                                        + "` (id INT) TBLPROPERTIES ('block.row' ="
                                                        + " '10')"))
                        .getMessage();
        assertTrue(misspelt.contains("nearest first: block.rows, "), misspelt);
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        String table = "CREATE TABLE terrace.`" + dir + "` (id INT) ";
        assertThrows(
                IllegalArgumentException.class, () -> spark.sql(table + "LOCATION '/elsewhere'"));
        assertThrows(
                IllegalArgumentException.class,
                () -> spark.sql(table + "PARTITIONED BY (bucket(4, id))"));
        assertThrows(
                IllegalArgumentException.class,
                () -> spark.sql(table.replace("INT", "INT NOT NULL")));
        Dataset<Row> twice = spark.range(1).selectExpr("id a", "id A");
        String message =
                assertThrows(IllegalArgumentException.class, () -> write(twice, SaveMode.Append))
                        .getMessage();
        assertEquals("two columns have the name A: give one another", message);
        Dataset<Row> inside = spark.range(1).selectExpr("array(named_struct('a', 1, 'A', 2)) s");
        message =
                assertThrows(IllegalArgumentException.class, () -> write(inside, SaveMode.Append))
                        .getMessage();
        assertEquals("two fields of a struct have the name A: give one another", message);
        assertFalse(Files.exists(dir.resolve("manifests")));
    }

    @Test
    void aValueThatIsTooLongIsRefusedWithTheRemedy(SparkSession spark) {
        Dataset<Row> rows = spark.range(1).selectExpr("id", "repeat('long ', 500000) text");
        String message =
                assertThrows(SparkException.class, () -> write(rows, SaveMode.Append)).getMessage();
        assertTrue(message.contains("set the option extent"), message);
        rows.write().format("terrace").mode("append").save(dir.toString());
        assertEquals(rows.collectAsList(), read(spark).collectAsList());
    }

    @Test
    void columnsLieWhereTheTablesOptionsSay(
            SparkSession spark, @TempDir Path pmem, @TempDir Path disk) throws IOException {
        Dataset<Row> rows = spark.range(0, 100, 1, 1).selectExpr("id", "repeat('x', 1000) text");
        rows.write()
                .format("terrace")
                .option("tier.text", "disk")
                .option("pmem", pmem.toString())
                .option("disk", disk.toString())
                .option("extent", 1 << 20)
                .save(dir.toString());
        // Those of the first write hold for later ones.
        rows.write().format("terrace").mode("append").save(dir.toString());
        assertEquals(200, read(spark).filter("length(text) = 1000").count());
        assertFalse(Files.exists(dir.resolve("parts")));
        try (var files = Files.walk(disk)) {
            assertEquals(2, files.filter(file -> file.endsWith("disk-0")).count());
        }
        try (var files = Files.walk(pmem)) {
            assertEquals(2, files.filter(file -> file.endsWith("pool")).count());
        }
        spark.sql("DROP TABLE terrace.`" + dir + "`");
        try (var left = Files.walk(pmem)) {
            assertEquals(1, left.count());
        }
    }

    @Test
    void aDamagedManifestIsNamed(SparkSession spark) throws IOException {
        write(numbers(spark, 0, 5), SaveMode.Append);
        Path manifest = dir.resolve("manifests").resolve("0000000000000000001");
        byte[] bytes = Files.readAllBytes(manifest);
        bytes[bytes.length / 2] ^= 4;
        Files.write(manifest, bytes);
        assertTrue(
                assertThrows(PoolDamagedException.class, () -> read(spark))
                        .getMessage()
                        .contains(manifest.toString()));
        assertThrows(
                PoolDamagedException.class, () -> write(numbers(spark, 0, 5), SaveMode.Overwrite));
    }

    @Test
    void aDamagedValueIsNoticedByWhoReadsIt(SparkSession spark) throws IOException {
        spark.range(0, 100, 1, 1)
                .selectExpr("id", "repeat('text ', 100) text")
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("tier.text", "DISK")
                .save(dir.toString());
        Path disk = dir.resolve("parts").resolve(parts().getFirst()).resolve("disk-0");
        byte[] bytes = Files.readAllBytes(disk);
        int at = new String(bytes, StandardCharsets.ISO_8859_1).indexOf("text text");
        bytes[at] ^= 1;
        Files.write(disk, bytes);
        String message =
                assertThrows(SparkException.class, () -> read(spark).select("text").collect())
                        .getMessage();
        assertTrue(
                message.contains(PoolDamagedException.class.getName())
                        && message.contains(disk.toString()),
                message);
        assertEquals(4950L, read(spark).selectExpr("sum(id)").first().get(0));
    }

    @Test
    void whatHoldsNoTableIsSaid(SparkSession spark, JavaSparkContext context) throws IOException {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        String table = "terrace.`" + dir + "`";
        for (Executable query :
                List.<Executable>of(
                        () -> read(spark),
                        () ->
                                spark.read()
                                        .format("terrace")
                                        .option("versionAsOf", 1)
                                        .load(dir.toString()),
                        () ->
                                spark.read()
                                        .format("terrace")
                                        .option("timestampAsOf", "2001-01-03")
                                        .load(dir.toString()),
                        () ->
                                spark.sql(
                                        "CREATE TEMPORARY VIEW none USING terrace OPTIONS (path '"
                                                + dir
                                                + "')"))) {
            String none = assertThrows(AnalysisException.class, query).getMessage();
            assertTrue(
                    none.contains("TABLE_OR_VIEW_NOT_FOUND") && none.contains(dir.toString()),
                    none);
        }
        for (String statement :
                List.of(
                        "SELECT * FROM %s",
                        "SELECT * FROM %s VERSION AS OF 1",
                        "INSERT INTO %s VALUES (1)",
                        "DESCRIBE %s",
                        "DROP TABLE %s")) {
            assertThrows(
                    AnalysisException.class,
                    () -> spark.sql(statement.formatted(table)),
                    statement);
        }
        DurableRDD.save(
                context.parallelize(List.of(Point.of(1)), 1),
                Point.class,
                DurablePoint.class,
                dir.toString(),
                PartitionOptions.defaults().extents(1 << 20));
        String message =
                assertThrows(IllegalArgumentException.class, () -> read(spark)).getMessage();
        assertTrue(message.contains("DurableRDD reads"), message);
        assertThrows(
                IllegalArgumentException.class, () -> write(numbers(spark, 0, 5), SaveMode.Append));
    }

    @Test
    void cachedTablesGiveTheSameRows(SparkSession spark) {
        write(numbers(spark, 0, 50), SaveMode.Append);
        Dataset<Row> cached = read(spark).cache();
        assertEquals(50, cached.count());
        expect(numbers(spark, 0, 50), cached);
        cached.unpersist();
    }

    @Test
    void whoAppendsAtATimeAllCount(SparkSession spark) throws Exception {
        write(numbers(spark, 0, 10), SaveMode.Append);
        try (var writers = Executors.newFixedThreadPool(4)) {
            List<Callable<Void>> appends =
                    IntStream.rangeClosed(1, 4)
                            .<Callable<Void>>mapToObj(i ->
                                    () -> {
                                        write(numbers(spark, 10 * i, 10 * i + 10), SaveMode.Append);
                                        return null;
                                    })
                            .toList();
            for (Future<Void> done : writers.invokeAll(appends)) {
                done.get();
            }
        }
        expect(numbers(spark, 0, 50), read(spark));
        assertEquals(10, parts().size());
    }

    @Test
    void whoReplacesWhatHasChangedMeanwhileIsTold(SparkSession spark) throws IOException {
        write(numbers(spark, 0, 10), SaveMode.Append);
        appendTo = dir.toString();
        spark.udf()
                .register(
                        "interfere",
                        (Long id) -> {
                            if (id == 7) {
                                // Not in the task, which has no session.
                                CompletableFuture.runAsync(() ->
                                                numbers(SparkSession.active(), 10, 20)
                                                        .write()
                                                        .format("terrace")
                                                        .mode("append")
                                                        .save(appendTo))
                                        .join();
                            }
                            return id;
                        },
                        DataTypes.LongType);
        Dataset<Row> rows =
                numbers(spark, 0, 8).coalesce(1).selectExpr("interfere(id) id", "name", "half");
        Exception refused =
                assertThrows(UncheckedIOException.class, () -> write(rows, SaveMode.Overwrite));
        assertTrue(refused.getCause() instanceof CommitConflictException, refused::toString);
        expect(numbers(spark, 0, 20), read(spark));
        assertEquals(4, parts().size());
    }

    @Test
    void aRemoteTableIsCopiedToTheNodeOnce(SparkSession spark, @TempDir Path here)
            throws IOException {
        String remote = "remote:" + dir.resolve("table");
        numbers(spark, 0, 100)
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("tier.name", "DISK")
                .option("pmem", here.resolve("a").toString())
                .save(remote);
        numbers(spark, 100, 200).write().format("terrace").mode("append").save(remote);
        Dataset<Row> table =
                spark.read()
                        .format("terrace")
                        .option("pmem", here.resolve("b").toString())
                        .option("disk", here.resolve("c").toString())
                        .load(remote);
        expect(numbers(spark, 0, 200), table);
        // The copies are read, not what they are of.
        PartStore.deleteTree(dir.resolve("table").resolve("parts"));
        expect(numbers(spark, 0, 200), table);
        try (var left = Files.list(here.resolve("a"))) {
            assertEquals(0, left.count());
        }
        for (String place : List.of("b", "c")) {
            try (var copies = Files.list(here.resolve(place))) {
                assertEquals(
                        4,
                        copies.filter(path -> !path.getFileName().toString().startsWith("."))
                                .count());
            }
        }
    }

    @Test
    void sqlMakesReplacesAndDropsTables(SparkSession spark) {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        String table = "terrace.`" + dir + "`";
        spark.sql(
                "CREATE TABLE "
                        + table
                        + " TBLPROPERTIES ('extent' = '1048576') AS SELECT 1 id, 'a' name");
        assertThrows(
                AnalysisException.class,
                () -> spark.sql("CREATE TABLE " + table + " AS SELECT 2 id"));
        spark.sql("CREATE TABLE IF NOT EXISTS " + table + " AS SELECT 2 id");
        spark.sql("INSERT INTO " + table + " VALUES (2, 'b')");
        assertEquals(
                "[[1,a], [2,b]]",
                spark.sql("SELECT * FROM " + table + " ORDER BY id").collectAsList().toString());
        spark.sql("INSERT OVERWRITE " + table + " SELECT id + 10, upper(name) FROM " + table);
        assertEquals(
                "[[11,A], [12,B]]", spark.table(table).orderBy("id").collectAsList().toString());
        assertEquals(
                "[[1,a]]",
                spark.sql("SELECT * FROM " + table + " VERSION AS OF 1")
                        .collectAsList()
                        .toString());
        spark.sql(
                "CREATE OR REPLACE TABLE "
                        + table
                        + " AS SELECT name, 1.5D half FROM "
                        + table
                        + " WHERE id = 12");
        assertEquals("[[B,1.5]]", spark.table(table).collectAsList().toString());
        assertThrows(
                SparkRuntimeException.class,
                () ->
                        spark.sql(
                                "CREATE OR REPLACE TABLE "
                                        + table
                                        + " AS SELECT cast(raise_error('no') as int) id FROM "
                                        + table));
        assertEquals("[[B,1.5]]", spark.table(table).collectAsList().toString());
        spark.sql("CREATE OR REPLACE TABLE " + table + " (only INT COMMENT 'one')");
        assertEquals("[[only,int,one]]", spark.sql("DESCRIBE " + table).collectAsList().toString());
        assertEquals(0, spark.table(table).count());
        assertThrows(
                UnsupportedOperationException.class,
                () -> spark.sql("ALTER TABLE " + table + " ADD COLUMN more INT"));
        assertThrows(
                UnsupportedOperationException.class,
                () -> spark.sql("ALTER TABLE " + table + " RENAME TO elsewhere"));
        spark.sql("DROP TABLE " + table);
        assertFalse(Files.exists(dir));
        assertThrows(AnalysisException.class, () -> spark.table(table));
    }

    @Test
    void columnsHaveAnyNames(SparkSession spark) {
        Dataset<Row> rows =
                spark.range(3)
                        .selectExpr(
                                "id",
                                "id `a b`",
                                "id `a.b`",
                                "id `x``y`",
                                "id `0:id.nulls`",
                                "cast(null as int) `größe`");
        rows.write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("tier.a b", "DISK")
                .save(dir.toString());
        Dataset<Row> table = read(spark);
        assertEquals(rows.collectAsList(), table.collectAsList());
        assertEquals(1, table.filter("`a b` > 1 and `a.b` = 2 and `x``y` <= 2").count());
        assertEquals(
                "[3,0,2]",
                table.selectExpr("count(`a.b`)", "count(`größe`)", "max(`x``y`)")
                        .first()
                        .toString());
    }

    @Test
    void collationsCompareAsTheyDo(SparkSession spark) {
        Dataset<Row> rows =
                spark.range(2).selectExpr("if(id = 0, 'Apfel', 'birne') collate UTF8_LCASE fruit");
        write(rows, SaveMode.Append);
        assertEquals(1, read(spark).filter("fruit = 'APFEL'").count());
        assertEquals(1, read(spark).filter("fruit > 'AZ'").count());
        assertEquals("birne", read(spark).selectExpr("max(fruit)").first().get(0));
    }

    @Test
    void aTypeOfLimitedLengthIsRefused(SparkSession spark) {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        for (String type : List.of("VARCHAR(3)", "CHAR(3)")) {
            String message =
                    assertThrows(
                                    IllegalArgumentException.class,
                                    () ->
                                            spark.sql(
                                                    "CREATE TABLE terrace.`"
                                                            + dir
                                                            + "` (c "
                                                            + type
                                                            + ")"))
                            .getMessage();
            assertTrue(message.contains(type), message);
        }
    }
}
