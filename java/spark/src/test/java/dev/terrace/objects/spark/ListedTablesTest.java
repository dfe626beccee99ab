package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// Tables with so many parts that files list them: queries, statements, versions and streams.
@ExtendWith(LocalSpark.class)
class ListedTablesTest {
    /// More than a manifest has itself, so each write of so many parts makes a list.
    private static final int PARTS = PartLists.REST_MAX + 10;

    @TempDir private Path dir;

    private final SparkSession spark;
    private String table = "";

    ListedTablesTest(SparkSession spark) {
        this.spark = spark;
    }

    @BeforeEach
    void name() {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        table = "terrace.`" + path() + "`";
    }

    private Path path() {
        return dir.resolve("table");
    }

    private void append(long from, long to, int parts) {
        spark.range(from, to, 1, parts)
                .selectExpr("id", "concat('name ', id) name")
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .mode("append")
                .save(path().toString());
    }

    private void run(String statement) {
        spark.sql(statement.replace("TARGET", table)).collect();
    }

    private Manifest manifest() throws IOException {
        return new ManifestLog(path().toString(), new Configuration(false)).require(Manifest.TABLE);
    }

    private String sums(String condition) {
        return spark.sql(
                        "SELECT count(*), count(name), coalesce(sum(id), 0) FROM "
                                + table
                                + " WHERE "
                                + condition)
                .first()
                .toString();
    }

    private static String expected(long count, long sum) {
        return "[" + count + "," + count + "," + sum + "]";
    }

    private List<String> lists() throws IOException {
        try (var files = Files.list(path().resolve("lists"))) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }

    @Test
    void statementsChangeRowsOfPartsInLists() throws IOException {
        TreeMap<Long, String> versions = new TreeMap<>();
        append(0, 600, PARTS);
        assertEquals(expected(600, 179_700), sums("id >= 0"));
        assertEquals(expected(10, 3045), sums("id BETWEEN 300 AND 309"));
        versions.put(1L, sums("true"));
        assertEquals(1, manifest().lists().size());

        run("DELETE FROM TARGET WHERE id % 100 = 7 AND name <> ''");
        versions.put(2L, sums("true"));
        assertEquals(expected(594, 179_700 - 1542), versions.get(2L));
        assertEquals(6, manifest().rest().size(), "parts that have changed");
        assertEquals(1, lists().size());
        run("DELETE FROM TARGET WHERE id < 100");
        versions.put(3L, sums("true"));
        assertEquals(expected(495, 179_700 - 1542 - 4950 + 7), versions.get(3L));
        run(
                "MERGE INTO TARGET t USING (SELECT id FROM range(595, 605)) s ON t.id = s.id"
                        + " WHEN MATCHED THEN UPDATE SET name = 'merged'"
                        + " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')");
        versions.put(4L, sums("true"));
        assertEquals(expected(500, 179_700 - 1542 - 4950 + 7 + 3010), versions.get(4L));
        append(1000, 1060, PARTS);
        versions.put(5L, sums("true"));
        assertEquals(1, manifest().lists().size(), "the earlier one had room for them");
        assertEquals(List.of(), manifest().rest());
        run("CALL terrace.system.optimize(table => '" + path() + "', target_bytes => 100000)");
        versions.put(6L, sums("true"));
        assertEquals(versions.get(5L), versions.get(6L));
        run("INSERT OVERWRITE TARGET SELECT id, 'over' FROM range(5)");
        versions.put(7L, sums("true"));
        assertEquals(List.of(), manifest().lists());

        assertEquals(7, manifest().number());
        versions.forEach((number, sums) ->
                assertEquals(
                        sums,
                        spark.read()
                                .format("terrace")
                                .option("versionAsOf", number)
                                .load(path().toString())
                                .selectExpr("count(*)", "count(name)", "sum(id)")
                                .first()
                                .toString()));
        Snapshots.vacuum(
                JavaSparkContext.fromSparkContext(spark.sparkContext()),
                path().toString(),
                Duration.ofDays(-1));
        assertEquals(versions.get(7L), sums("true"));
        assertEquals(List.of(), lists());
        run("DROP TABLE TARGET");
        assertFalse(Files.exists(path()));
    }

    @Test
    void partitionsAreDroppedAndReplaced() throws IOException {
        run(
                "CREATE TABLE TARGET (id BIGINT, day BIGINT) PARTITIONED BY (day)"
                        + " TBLPROPERTIES ('extent' = '1048576')");
        run("INSERT INTO TARGET SELECT id, id % 70 FROM range(700)");
        assertEquals(70, manifest().parts().size());
        assertEquals(1, manifest().lists().size());
        run("ALTER TABLE TARGET DROP PARTITION (day = 3)");
        run("INSERT OVERWRITE TARGET PARTITION (day = 5) VALUES (1), (2)");
        assertEquals(69, manifest().parts().size());
        assertEquals(1, manifest().rest().size());
        assertEquals(1, lists().size());
        assertEquals(682, spark.sql("SELECT * FROM " + table).count());
        assertEquals(2, spark.sql("SELECT * FROM " + table + " WHERE day = 5").count());
        assertEquals(0, spark.sql("SELECT * FROM " + table + " WHERE day = 3").count());
        assertEquals(69, spark.sql("SHOW PARTITIONS " + table).count());
        run("DELETE FROM TARGET WHERE day >= 40");
        assertEquals(39, manifest().parts().size());
        assertEquals(List.of(), manifest().lists());
    }

    /// Each row arrives once, in batches that end anywhere in a list.
    @Test
    void streamsReadPartsOfLists() throws Exception {
        TableStreams streams = new TableStreams(spark, dir);
        append(0, 600, PARTS);
        List<Long> ids = new ArrayList<>();
        for (int round = 0; round < 4; round++) {
            Dataset<Row> rows =
                    spark.readStream()
                            .format("terrace")
                            .option("maxFilesPerTrigger", 37)
                            .load(path().toString());
            streams.run(
                    rows.select("id"),
                    "checkpoint",
                    batch -> batch.collectAsList().forEach(row -> ids.add(row.getLong(0))));
            switch (round) {
                case 0 -> append(600, 700, 1);
                case 1 -> append(700, 800, PARTS);
                case 2 -> {
                    run("CALL terrace.system.optimize(table => '" + path() + "')");
                    append(800, 900, 2);
                }
                default -> {}
            }
        }
        assertEquals(900, ids.size());
        assertEquals(900, ids.stream().distinct().count());
        assertTrue(ids.stream().allMatch(id -> id >= 0 && id < 900));
    }
}
