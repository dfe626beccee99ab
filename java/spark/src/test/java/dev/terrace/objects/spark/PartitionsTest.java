package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// Tables with partitions: how they are made, written, read and changed.
@ExtendWith(LocalSpark.class)
class PartitionsTest {
    @TempDir private Path dir;

    private final SparkSession spark;
    private static final String BROADCAST = "spark.sql.autoBroadcastJoinThreshold";

    private String table = "";

    PartitionsTest(SparkSession spark) {
        this.spark = spark;
    }

    @BeforeEach
    void nameTable() {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        table = "terrace.`" + dir.resolve("table") + "`";
    }

    private Dataset<Row> run(String statement) {
        return spark.sql(statement.replace("TABLE_NAME", table));
    }

    private String result(String query) {
        return run(query).collectAsList().toString();
    }

    private Manifest manifest() throws IOException {
        return TerraceCatalog.log(dir.resolve("table").toString()).require(Manifest.TABLE);
    }

    /// A table with days 1 to 3, of which each has ten rows.
    private void days() {
        run(
                "CREATE TABLE TABLE_NAME (id LONG, day INT, name STRING) PARTITIONED BY (day)"
                        + " TBLPROPERTIES ('extent' = '1048576')");
        run("INSERT INTO TABLE_NAME SELECT id, CAST(1 + id % 3 AS INT), 'stored' FROM range(30)");
    }

    private String counts() {
        return result("SELECT day, count(*) FROM TABLE_NAME GROUP BY day ORDER BY day");
    }

    private void expect(String why, String statement) {
        Throwable refused = assertThrows(Throwable.class, () -> run(statement).collect());
        StringBuilder messages = new StringBuilder();
        for (Throwable cause = refused; cause != null; cause = cause.getCause()) {
            messages.append(cause.getMessage()).append('\n');
        }
        assertTrue(messages.indexOf(why) >= 0, messages::toString);
    }

    @Test
    void otherPartitionsThanByValuesAreRefusedByName() {
        String create =
                "CREATE TABLE TABLE_NAME (id LONG, t TIMESTAMP, a ARRAY<INT>, s STRING"
                        + " COLLATE UNICODE_CI) PARTITIONED BY ";
        expect("cannot be partitioned by days(t)", create + "(days(t))");
        expect("cannot be partitioned by bucket(4, id)", create + "(bucket(4, id))");
        expect("cannot be partitioned by truncate(", create + "(truncate(id, 10))");
        expect("column a: a table cannot be partitioned by values of type ARRAY", create + "(a)");
        expect("column s: a table cannot be partitioned by values of type STRING", create + "(s)");
        expect("nowhere", create + "(nowhere)");
        assertFalse(Files.exists(dir.resolve("table")));
    }

    @Test
    void namesOfPartitionColumnsMayBeAny() throws IOException {
        spark.range(4)
                .selectExpr("id", "id % 2 `a, b``c.d`", "1 one")
                .write()
                .format("terrace")
                .option("partition.by", "`a, b``c.d` , ONE")
                .save(dir.resolve("table").toString());
        assertEquals(List.of("a, b`c.d", "one"), manifest().partitioning());
        assertEquals(2, manifest().parts().size());
        assertEquals("[[1], [3]]", result("SELECT id FROM TABLE_NAME WHERE `a, b``c.d` = 1"));
        for (String wrong : List.of("id,", ",", "`id", "id one", "id, id", "two")) {
            assertThrows(
                    IllegalArgumentException.class,
                    () ->
                            spark.range(1)
                                    .selectExpr("id", "1 one")
                                    .write()
                                    .format("terrace")
                                    .option("partition.by", wrong)
                                    .save(dir.resolve("other").toString()),
                    wrong);
        }
    }

    @Test
    void eachWayToMakeATablePartitionsIt() throws Exception {
        Dataset<Row> rows = spark.range(6).selectExpr("id", "id % 3 day");
        String path = dir.resolve("table").toString();
        rows.write().format("terrace").partitionBy("day").save(path);
        assertEquals(List.of("day"), manifest().partitioning());
        rows.write().format("terrace").partitionBy("day").mode("append").save(path);
        assertEquals("[[0,4], [1,4], [2,4]]", counts());
        assertEquals(6, manifest().parts().size());
        assertThrows(
                IllegalArgumentException.class,
                () -> rows.write().format("terrace").partitionBy("id").mode("append").save(path));
        assertThrows(
                IllegalArgumentException.class,
                () ->
                        rows.write()
                                .format("terrace")
                                .option("partition.by", "id")
                                .mode("append")
                                .save(path));
        rows.writeTo(table).partitionedBy(org.apache.spark.sql.functions.col("id")).replace();
        assertEquals(List.of("id"), manifest().partitioning());
        assertEquals(6, manifest().parts().size());
        run(
                "CREATE OR REPLACE TABLE TABLE_NAME PARTITIONED BY (day) AS SELECT id, 1 day FROM"
                        + " range(5)");
        assertEquals("[[1,5]]", counts());
        run("CREATE OR REPLACE TABLE TABLE_NAME AS SELECT 1L id");
        assertEquals(List.of(), manifest().partitioning());
        assertTrue(result("DESCRIBE TABLE_NAME").contains("id"));
    }

    /// Each value is a partition of its own, and is found by filters, as Spark compares values.
    @Test
    void anyValueIsAPartition() throws IOException {
        run(
                "CREATE TABLE TABLE_NAME (id INT, d DOUBLE, s STRING, m DECIMAL(30, 3), b BINARY, t"
                    + " DATE) PARTITIONED BY (d, s, m, b, t) TBLPROPERTIES ('extent' = '1048576')");
        String long1 = "x".repeat(100) + "1";
        String long2 = "x".repeat(100) + "2";
        run(
                "INSERT INTO TABLE_NAME VALUES"
                        + " (1, 0.0, '', 1.5, X'', DATE'2030-01-01'), (2, -0.0D, '', 1.5, X'',"
                        + " DATE'2030-01-01'), (3, double('NaN'), 'a/b=c%', -1.5, X'FF00',"
                        + " DATE'1969-12-31'), (4, double('-Infinity'), '"
                        + long1
                        + "', 99999999999999999999999999.999, NULL, NULL), (5, double('-Infinity'),"
                        + " '"
                        + long2
                        + "', 99999999999999999999999999.999, NULL, NULL), (6, NULL, NULL, NULL,"
                        + " NULL, NULL)");
        assertEquals(5, manifest().parts().size());
        // Zeros keep their signs.
        assertEquals("[[0.0], [-0.0]]", result("SELECT d FROM TABLE_NAME WHERE d = 0 ORDER BY id"));
        for (List<String> found :
                List.of(
                        List.of("d = 0.0D", "[[1], [2]]"),
                        List.of("d = double('NaN')", "[[3]]"),
                        List.of("d > 1e300D", "[[3]]"),
                        List.of("s = ''", "[[1], [2]]"),
                        List.of("s = 'a/b=c%'", "[[3]]"),
                        List.of("s = '" + long1 + "'", "[[4]]"),
                        List.of("s > '" + long1 + "'", "[[5]]"),
                        List.of("s LIKE 'xx%'", "[[4], [5]]"),
                        List.of("m < 0", "[[3]]"),
                        List.of("m = 1.5BD", "[[1], [2]]"),
                        List.of("m >= 2", "[[4], [5]]"),
                        List.of("b = X'FF00'", "[[3]]"),
                        List.of("b IS NULL AND t IS NULL AND d IS NOT NULL", "[[4], [5]]"),
                        List.of("t < DATE'2000-01-01'", "[[3]]"),
                        List.of("s IS NULL", "[[6]]"))) {
            String query = "SELECT id FROM TABLE_NAME WHERE " + found.get(0);
            assertEquals(found.get(1), result(query + " ORDER BY id"), query);
            String plan = run(query).queryExecution().executedPlan().toString();
            assertFalse(plan.contains("Filter "), plan);
        }
        List<String> shown =
                run("SHOW PARTITIONS TABLE_NAME").collectAsList().stream()
                        .map(row -> row.getString(0))
                        .toList();
        assertEquals(5, shown.size());
        assertTrue(shown.toString().contains("d=NaN/s=a%2Fb%3Dc%25/m=-1.500/"), shown::toString);
    }

    @Test
    void aFilterThatAllRowsOfThePartsMeetIsNotEvaluated() {
        days();
        String plan =
                run("SELECT id FROM TABLE_NAME WHERE day = 2 AND id > 5")
                        .queryExecution()
                        .executedPlan()
                        .toString();
        assertTrue(plan.contains("Filter"), plan);
        assertTrue(plan.contains("1 parts"), plan);
        assertFalse(plan.contains("(day#"), plan);
        plan =
                run("SELECT count(*) FROM TABLE_NAME WHERE day >= 2")
                        .queryExecution()
                        .executedPlan()
                        .toString();
        assertTrue(plan.contains("of its manifest"), plan);
        assertEquals("[[20]]", result("SELECT count(*) FROM TABLE_NAME WHERE day >= 2"));
        assertEquals("[[29]]", result("SELECT max(id) FROM TABLE_NAME WHERE day > 2"));
        run("DELETE FROM TABLE_NAME WHERE id = 29");
        assertEquals("[[19]]", result("SELECT count(*) FROM TABLE_NAME WHERE day >= 2"));
        assertEquals("[[26]]", result("SELECT max(id) FROM TABLE_NAME WHERE day > 2"));
        assertEquals("[]", result("SELECT id FROM TABLE_NAME WHERE day = 7 LIMIT 3"));
        assertEquals(3, run("SELECT id FROM TABLE_NAME WHERE day = 1 LIMIT 3").count());
    }

    /// Of a join that needs few days only their parts are read.
    @Test
    void partitionsAreSkippedByWhatAJoinNeeds() {
        days();
        // So that these are no small table.
        spark.conf().set(BROADCAST, 1);
        String wanted = "terrace.`" + dir.resolve("wanted") + "`";
        run(
                "CREATE TABLE "
                        + wanted
                        + " AS SELECT * FROM VALUES (1, 'no'), (2, 'yes'), (3, 'no')"
                        + " AS (day, is_wanted)");
        Dataset<Row> rows =
                run(
                        "SELECT /*+ BROADCAST(w) */ t.id FROM TABLE_NAME t JOIN "
                                + wanted
                                + " w ON t.day = w.day WHERE w.is_wanted = 'yes'");
        assertEquals(10, rows.collectAsList().size());
        String plan = rows.queryExecution().executedPlan().toString();
        assertTrue(plan.contains("dynamicpruning"), plan);
        TableScan scan =
                (TableScan)
                        TerraceCatalog.table(dir.resolve("table").toString())
                                .newScanBuilder(CaseInsensitiveStringMap.empty())
                                .build();
        assertEquals(3, scan.planInputPartitions().length);
        assertEquals(
                List.of("id", "day"),
                Stream.of(scan.filterAttributes()).map(Object::toString).toList());
        Expression[] in = {
            Expressions.column("day"), Expressions.literal(2), Expressions.literal(9)
        };
        scan.filter(new Predicate[] {new Predicate("IN", in)});
        assertEquals(1, scan.planInputPartitions().length);
    }

    /// Strings are partition values here, which no other column is filtered by.
    @Test
    void namesOfAJoinChoosePartitions() {
        run(
                "CREATE TABLE TABLE_NAME (id LONG, key STRING, name STRING) PARTITIONED BY (key)"
                        + " TBLPROPERTIES ('extent' = '1048576')");
        run("INSERT INTO TABLE_NAME SELECT id, string(id % 40), string(id) FROM range(400)");
        spark.conf().set(BROADCAST, 100);
        for (int wanted : List.of(3, 30)) {
            Dataset<Row> rows =
                    run(
                            "SELECT /*+ BROADCAST(w) */ t.id FROM TABLE_NAME t JOIN (SELECT"
                                    + " string(id) wanted FROM range(40) WHERE id * id < "
                                    + wanted * wanted
                                    + ") w ON t.key = w.wanted");
            assertEquals(10 * wanted, rows.collectAsList().size());
            assertEquals(10 * wanted, PruningTest.scanned(rows));
        }
        TableScan scan =
                (TableScan)
                        TerraceCatalog.table(dir.resolve("table").toString())
                                .newScanBuilder(CaseInsensitiveStringMap.empty())
                                .build();
        assertEquals(
                List.of("id", "key"),
                Stream.of(scan.filterAttributes()).map(Object::toString).toList());
        spark.conf().set(BROADCAST, 1 << 20);
        assertEquals(0, scan.filterAttributes().length, "it is broadcast itself");
    }

    @AfterEach
    void broadcastAsBefore() {
        spark.conf().unset(BROADCAST);
    }

    /// The key of a long decimal is not what a block has of it.
    @Test
    void longDecimalsAreFilteredByTheirValues() {
        run(
                "CREATE TABLE TABLE_NAME (id INT, key DECIMAL(30, 3), m DECIMAL(30, 3)) PARTITIONED"
                        + " BY (key)");
        run(
                "INSERT INTO TABLE_NAME SELECT id, (id % 3 - 1) * 1e20BD, IF(id = 9, NULL, (id - 5)"
                        + " * 123456789012345678.5BD) FROM range(10)");
        assertEquals(
                "[[6], [7], [8]]", result("SELECT id FROM TABLE_NAME WHERE m > 0 ORDER BY id"));
        assertEquals(
                "[[0], [1]]", result("SELECT id FROM TABLE_NAME WHERE m < -4e17BD ORDER BY 1"));
        assertEquals("[[7]]", result("SELECT id FROM TABLE_NAME WHERE m = 246913578024691357.0BD"));
        assertEquals(
                "[[3], [6]]",
                result(
                        "SELECT id FROM TABLE_NAME WHERE key < 0 AND m IN (-246913578024691357.0BD,"
                                + " 123456789012345678.5BD) ORDER BY id"));
    }

    @Test
    void theManifestKnowsNoStructs() {
        run(
                "CREATE TABLE TABLE_NAME PARTITIONED BY (day) AS SELECT named_struct('id', id) s,"
                        + " map(id, id) m, id % 2 day FROM range(30)");
        assertEquals("[[[29],30]]", result("SELECT max(s), count(m) FROM TABLE_NAME"));
        assertEquals("[[[0]]]", result("SELECT min(s) FROM TABLE_NAME WHERE day = 0"));
        assertEquals(
                "[[7]]", result("SELECT s.id FROM TABLE_NAME WHERE s = named_struct('id', 7L)"));
        assertEquals("[[15]]", result("SELECT count(s.id) FROM TABLE_NAME WHERE s.id < 15"));
        assertEquals("[[8]]", result("SELECT m[8] FROM TABLE_NAME WHERE day = 0 AND s.id = 8"));
    }

    @Test
    void anUpdateOrAMergeMovesRowsToTheirPartitions() throws IOException {
        days();
        run("UPDATE TABLE_NAME SET day = 4 WHERE id < 6");
        assertEquals("[[1,8], [2,8], [3,8], [4,6]]", counts());
        run(
                "MERGE INTO TABLE_NAME t USING (SELECT id, CAST(5 + id % 2 AS INT) day FROM"
                    + " range(28, 40)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET day = s.day"
                    + " WHEN NOT MATCHED THEN INSERT (id, day) VALUES (s.id, s.day)");
        assertEquals("[[1,8], [2,7], [3,7], [4,6], [5,6], [6,6]]", counts());
        assertEquals(manifest().parts().size(), new HashSet<>(manifest().parts()).size());
        run("DELETE FROM TABLE_NAME WHERE day = 5");
        assertEquals("[[1,8], [2,7], [3,7], [4,6], [6,6]]", counts());
        run("INSERT INTO TABLE_NAME (id, name) VALUES (100, 'without a day')");
        assertEquals(
                "[[null], [1], [2], [3], [4], [6]]",
                result("SELECT DISTINCT day FROM TABLE_NAME ORDER BY day"));
        assertTrue(result("SHOW PARTITIONS TABLE_NAME").contains("day=null"));
        run("DELETE FROM TABLE_NAME WHERE day IS NULL");
        assertEquals("[[1,8], [2,7], [3,7], [4,6], [6,6]]", counts());
    }

    /// Whole parts go, and no part is opened.
    @Test
    void partitionsAreDropped() throws IOException {
        days();
        run("ALTER TABLE TABLE_NAME DROP PARTITION (day = 2)");
        assertEquals("[[1,10], [3,10]]", counts());
        assertEquals("[[day=1], [day=3]]", result("SHOW PARTITIONS TABLE_NAME"));
        assertEquals("[[day=3]]", result("SHOW PARTITIONS TABLE_NAME PARTITION (day = 3)"));
        expect("day", "ALTER TABLE TABLE_NAME DROP PARTITION (day = 2)");
        run("ALTER TABLE TABLE_NAME DROP IF EXISTS PARTITION (day = 2), PARTITION (day = 1)");
        assertEquals("[[3,10]]", counts());
        run("TRUNCATE TABLE TABLE_NAME PARTITION (day = 3)");
        assertEquals("[]", counts());
        expect("insert some instead", "ALTER TABLE TABLE_NAME ADD PARTITION (day = 9)");
        assertEquals("[]", result("SHOW PARTITIONS TABLE_NAME"));
        run("CREATE OR REPLACE TABLE TABLE_NAME AS SELECT 1 id");
        expect("PARTITION", "SHOW PARTITIONS TABLE_NAME");
    }

    @Test
    void anOptimizationKeepsPartitionsApart() throws IOException {
        days();
        run("INSERT INTO TABLE_NAME SELECT id, CAST(1 + id % 3 AS INT), 'later' FROM range(30)");
        assertEquals(6, manifest().parts().size());
        for (String sort : List.of("", ", sort_by => array('id')")) {
            String call =
                    "CALL terrace.system.optimize(table => '" + dir.resolve("table") + "'" + sort;
            String result = result(call + ")");
            assertTrue(result.startsWith("[[6,") && result.endsWith(",0]]"), result);
            assertEquals(3, manifest().parts().size());
            assertEquals("[[1,20], [2,20], [3,20]]", counts());
            assertEquals("[[0,0,0,0,0]]", result(call + ")"), "there is nothing left to do");
            run("INSERT OVERWRITE TABLE_NAME SELECT * FROM TABLE_NAME WHERE name = 'stored'");
            run(
                    "INSERT INTO TABLE_NAME SELECT id, CAST(1 + id % 3 AS INT), 'later' FROM"
                            + " range(30)");
        }
        // Partitions that become several parts are sorted each for itself.
        String call =
                "CALL terrace.system.optimize(table => '"
                        + dir.resolve("table")
                        + "', sort_by => array('id'), all_parts => true, target_bytes => 10000)";
        result(call);
        assertEquals("[[1,20], [2,20], [3,20]]", counts());
        TableColumns columns = TableColumns.of(manifest());
        assertEquals(3, manifest().parts().stream().map(columns::partitionOf).distinct().count());
    }

    /// Of some hundred, or of as many as `-Dterrace.partitions=10000` says.
    @Test
    void aTaskWritesAPartOfEachPartition() throws IOException {
        int partitions = Integer.getInteger("terrace.partitions", 200);
        spark.range(0, 40L * partitions, 1, 4)
                .selectExpr("id", "CAST(id % " + partitions + " AS STRING) key")
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("sort.by", "id")
                .partitionBy("key")
                .save(dir.resolve("table").toString());
        assertEquals(partitions, manifest().parts().size());
        int tasks = run("SELECT * FROM TABLE_NAME").javaRDD().getNumPartitions();
        assertTrue(tasks >= partitions / 32 && tasks < partitions / 8, () -> "tasks: " + tasks);
        assertEquals(
                "[[" + 40 * partitions + "," + partitions + "]]",
                result("SELECT count(id), count(DISTINCT key) FROM TABLE_NAME"));
        assertEquals(40, run("SELECT * FROM TABLE_NAME WHERE key = '77'").count());
        run("DELETE FROM TABLE_NAME WHERE key >= '10'");
        assertEquals("[[0], [1]]", result("SELECT DISTINCT key FROM TABLE_NAME ORDER BY key"));
        assertEquals(2, manifest().parts().size());
        assertEquals(List.of(), names("jobs"));
    }

    private List<String> names(String directory) throws IOException {
        try (var files = Files.list(dir.resolve("table").resolve(directory))) {
            return files.map(file -> file.getFileName().toString()).sorted().toList();
        }
    }

    /// Also of partitions that are complete.
    @Test
    void whatAJobHasWrittenGoesWhenItFails() throws IOException {
        days();
        List<String> parts = names("parts");
        expect(
                "DIVIDE_BY_ZERO",
                "INSERT INTO TABLE_NAME SELECT id, CAST(id AS INT), IF(id = 19,"
                        + " CAST(1 / (id - 19) AS STRING), 'new') FROM range(20)");
        expect(
                "no value may be longer",
                "INSERT INTO TABLE_NAME SELECT id, CAST(id AS INT), IF(id"
                        + " = 19, repeat('x', 3000000), 'new') FROM range(20)");
        assertEquals(parts, names("parts"));
        assertEquals(List.of(), names("jobs"));
        assertEquals("[[1,10], [2,10], [3,10]]", counts());
    }

    @Test
    void streamsAppendToPartitions() throws Exception {
        Path in = Files.createDirectory(dir.resolve("in"));
        for (int epoch = 0; epoch < 2; epoch++) {
            Files.writeString(
                    in.resolve(epoch + ".json"), "{\"id\":1,\"day\":1}\n{\"id\":2,\"day\":2}\n");
            spark.readStream()
                    .schema("id LONG, day INT")
                    .json(in.toString())
                    .writeStream()
                    .format("terrace")
                    .option("checkpointLocation", dir.resolve("checkpoint").toString())
                    .option("partition.by", "day")
                    .trigger(Trigger.AvailableNow())
                    .start(dir.resolve("table").toString())
                    .awaitTermination();
            assertEquals(List.of("day"), manifest().partitioning());
            assertEquals(2 * (epoch + 1), manifest().parts().size());
        }
        assertEquals("[[1,2], [2,2]]", counts());
    }

    /// Rows of a part lie in the order of the option, and in an optimized one over all parts.
    @Test
    void rowsAreSortedByTheOptionOfTheTable() throws IOException {
        run(
                "CREATE TABLE TABLE_NAME (id LONG, day INT, name STRING) PARTITIONED BY (day)"
                        + " TBLPROPERTIES ('extent' = '1048576', 'sort.by' = 'name, id')");
        String rows = "SELECT id, CAST(id % 2 AS INT), CAST(id * 7 % 10 AS STRING) FROM range(100)";
        run("INSERT INTO TABLE_NAME " + rows);
        requireSorted(2);
        run("INSERT INTO TABLE_NAME " + rows);
        requireSorted(4);
        String call = "CALL terrace.system.optimize(table => '" + dir.resolve("table") + "')";
        assertTrue(result(call).startsWith("[[4,"));
        requireSorted(2);
        run("ALTER TABLE TABLE_NAME SET TBLPROPERTIES ('sort.by' = 'id')");
        run("UPDATE TABLE_NAME SET day = 2");
        assertEquals(
                List.of("id"),
                new TableOptions(manifest().options())
                        .sortBy(TableColumns.of(manifest()).schema()));
        List<Row> ids = run("SELECT id FROM TABLE_NAME").collectAsList();
        assertEquals(200, ids.size());
        if (manifest().parts().size() == 1) {
            assertEquals(
                    ids.stream().map(row -> row.getLong(0)).sorted().toList(),
                    ids.stream().map(row -> row.getLong(0)).toList());
        }
        run("ALTER TABLE TABLE_NAME UNSET TBLPROPERTIES ('sort.by')");
        assertFalse(manifest().options().containsKey("sort.by"));
        expect(
                "the table has no column nowhere",
                "ALTER TABLE TABLE_NAME SET TBLPROPERTIES ('sort.by' = 'nowhere')");
        expect(
                "there is no option sort.buy",
                "ALTER TABLE TABLE_NAME SET TBLPROPERTIES ('sort.buy' = 'id')");
        expect("cannot be altered", "ALTER TABLE TABLE_NAME ADD COLUMN x INT");
    }

    private void requireSorted(int parts) throws IOException {
        assertEquals(parts, manifest().parts().size());
        // Without a filter a task reads a part, from its first row to its last.
        Set<Integer> unsorted =
                run("SELECT id, name FROM TABLE_NAME")
                        .javaRDD()
                        .mapPartitions(rows -> {
                            int wrong = 0;
                            String last = "";
                            while (rows.hasNext()) {
                                Row row = rows.next();
                                String key =
                                        row.getString(1) + String.format("%5d", row.getLong(0));
                                wrong += key.compareTo(last) < 0 ? 1 : 0;
                                last = key;
                            }
                            return List.of(wrong).iterator();
                        })
                        .collect()
                        .stream()
                        .collect(Collectors.toSet());
        assertEquals(Set.of(0), unsorted);
    }
}
