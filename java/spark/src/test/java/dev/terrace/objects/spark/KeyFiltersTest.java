package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.stream.LongStream;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.execution.metric.SQLMetric;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Statements that change rows read those blocks only in which there may be such rows.
@ExtendWith(LocalSpark.class)
class KeyFiltersTest {
    private static final String ENABLED =
            "spark.sql.optimizer.runtime.rowLevelOperationGroupFilter.enabled";

    private static final int PARTS = 10;
    private static final int BLOCKS_OF_A_PART = 10;
    private static final int ALL = PARTS * BLOCKS_OF_A_PART;

    private static final String UPDATE = " WHEN MATCHED THEN UPDATE SET name = 'merged'";
    private static final String UPSERT =
            UPDATE + " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')";

    @TempDir private Path dir;

    private final SparkSession spark;
    private String table = "";

    KeyFiltersTest(SparkSession spark) {
        this.spark = spark;
    }

    /// 1000 rows in the order of their ids, with blocks of 10.
    @BeforeEach
    void write() {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        Path path = dir.resolve("target");
        table = "terrace.`" + path + "`";
        spark.range(0, 1000, 1, PARTS)
                .selectExpr("id", "concat('name ', id) name", "cast(id / 100 as int) hundred")
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("block.rows", 10)
                .save(path.toString());
    }

    @AfterEach
    void asBefore() {
        spark.conf().unset(ENABLED);
        spark.catalog().clearCache();
    }

    /// How much of the table a statement has read.
    private record Read(long blocks, long skipped, long rows) {
        static Read of(scala.collection.immutable.Map<String, SQLMetric> metrics) {
            return new Read(
                    metrics.apply("blocksRead").value(),
                    metrics.apply("blocksSkipped").value(),
                    metrics.apply("numOutputRows").value());
        }
    }

    private Read run(String statement) {
        Dataset<Row> done = spark.sql(statement.replace("TARGET", table));
        List<BatchScanExec> scans =
                PruningTest.scans(done.queryExecution().executedPlan())
                        .map(BatchScanExec.class::cast)
                        .filter(scan -> scan.scan() instanceof TableScan of && of.isOfStatement())
                        .toList();
        assertTrue(scans.size() <= 1, done.queryExecution()::toString);
        // Without any key Spark has no join, and no scan.
        return scans.isEmpty() ? new Read(0, 0, 0) : Read.of(scans.getFirst().metrics());
    }

    private void expect(String condition, long count) {
        assertEquals(
                count,
                spark.sql("SELECT * FROM " + table + " WHERE " + condition).count(),
                condition);
    }

    private Read merge(String source, String rest) {
        return run("MERGE INTO TARGET t USING " + source + " s ON t.id = s.id" + rest);
    }

    @Test
    void aMergeReadsTheBlocksOfItsKeys() {
        assertEquals(
                new Read(1, BLOCKS_OF_A_PART - 1, 10),
                merge("(SELECT id FROM range(500, 510))", UPSERT));
        expect("name = 'merged' and id between 500 and 509", 10);
        expect("true", 1000);
        // Those that are nowhere yet.
        assertEquals(0, merge("(SELECT id FROM range(2000, 2010))", UPSERT).blocks);
        expect("name = 'new'", 10);
        assertEquals(
                new Read(1, BLOCKS_OF_A_PART - 1, 5),
                merge(
                        "(VALUES (15), (16), (17), (18), (19) AS s(id))",
                        " WHEN MATCHED THEN DELETE"));
        expect("true", 1005);
    }

    /// Each of these has the same keys whenever it is read.
    @ParameterizedTest
    @ValueSource(
            strings = {
                "(VALUES (300), (301), (302), (303), (304) AS s(id))",
                "parquet.`DIR/parquet`",
                "terrace.`DIR/terrace`",
                "(SELECT * FROM cached)",
                "(WITH w AS (SELECT id FROM range(300, 305)) SELECT * FROM w)",
                "(SELECT max(id) id FROM range(300, 305) GROUP BY id)",
                "(SELECT explode(sequence(300, 304)) id)",
                "(SELECT a.id FROM cached a JOIN range(300, 305) b ON a.id = b.id)",
                "(SELECT id FROM range(300, 303) UNION ALL SELECT id FROM range(303, 305))",
                "(SELECT if(id = 310, null, id) id FROM range(300, 311) WHERE id <> 0"
                        + " AND (id < 305 OR id = 310))",
                "(SELECT cast(id as int) id FROM range(300, 305))"
            })
    void keysOfASourceAreKnown(String source) {
        Path files = dir.resolve("files");
        Dataset<Row> keys =
                spark.range(1000).filter("id between 300 and 304").selectExpr("id", "'new' name");
        keys.write().parquet(files + "/parquet");
        keys.write().format("terrace").option("extent", 1 << 20).save(files + "/terrace");
        keys.cache().createOrReplaceTempView("cached");
        assertEquals(5, spark.table("cached").count());
        assertEquals(
                new Read(1, BLOCKS_OF_A_PART - 1, 5),
                merge(source.replace("DIR", files.toString()), UPDATE));
        expect("name = 'merged'", 5);
        expect("true", 1000);
    }

    /// Those that may have other keys when they are read again, or too many.
    @ParameterizedTest
    @ValueSource(
            strings = {
                "rdd",
                "(SELECT id FROM range(300, 400) LIMIT 5)",
                "(SELECT id FROM (SELECT id, rank() OVER (ORDER BY id) r FROM range(300, 310))"
                        + " WHERE r <= 5)",
                "(SELECT id FROM range(300, 305)"
                        + " WHERE id > (SELECT cast(max(id) as bigint) FROM rdd) - 5)",
                "(SELECT id FROM range(300, 10000000) WHERE id < 305)"
            })
    void keysThatMayBeOthersLaterLeaveNothingOut(String source) {
        StructType schema = new StructType().add("id", DataTypes.LongType);
        List<Row> rows = LongStream.range(300, 305).mapToObj(RowFactory::create).toList();
        spark.createDataFrame(spark.createDataFrame(rows, schema).javaRDD(), schema)
                .createOrReplaceTempView("rdd");
        assertEquals(new Read(ALL, 0, 1000), merge(source, UPDATE));
        expect("name = 'merged'", 5);
        expect("true", 1000);
    }

    @Test
    void rowsThatMatchNothingAreReadIfAClauseIsForThem() {
        Read read =
                merge(
                        "(SELECT id FROM range(500, 510))",
                        UPSERT + " WHEN NOT MATCHED BY SOURCE AND t.id < 3 THEN DELETE");
        assertEquals(new Read(ALL, 0, 1000), read);
        expect("true", 997);
        expect("name = 'merged'", 10);
        run(
                "MERGE INTO TARGET t USING (SELECT id FROM range(990)) s ON t.id = s.id"
                        + " WHEN NOT MATCHED BY SOURCE THEN DELETE");
        expect("true", 987);
    }

    @Test
    void anySourceIsAccountedForThatHasNoKeys() {
        assertEquals(0, merge("(SELECT id FROM range(5) WHERE id > 7)", UPSERT).blocks);
        assertEquals(0, merge("(SELECT cast(null as bigint) id FROM range(3))", UPSERT).blocks);
        expect("id is null", 3);
        // A null of the table is no match of one of the source, unless the condition says so.
        run(
                "MERGE INTO TARGET t USING (SELECT cast(null as bigint) id) s ON t.id <=> s.id"
                        + " WHEN MATCHED THEN UPDATE SET name = 'merged'");
        expect("name = 'merged'", 3);
    }

    @Test
    void allColumnsOfAConditionCount() {
        Read read =
                run(
                        "MERGE INTO TARGET t USING (SELECT id, int(id / 1000000) + 7 hundred FROM"
                                + " range(695, 705)) s ON s.hundred = t.hundred AND t.id = s.id"
                                + UPDATE);
        assertEquals(new Read(1, BLOCKS_OF_A_PART - 1, 5), read);
        expect("name = 'merged'", 5);
        // By the source's own condition no block is left out, by the table's there is.
        read =
                run(
                        "MERGE INTO TARGET t USING (SELECT id FROM range(695, 705)) s"
                                + " ON t.id % 5000 = s.id AND t.id < 700"
                                + UPDATE);
        assertEquals(7 * BLOCKS_OF_A_PART, read.blocks);
        expect("name = 'merged'", 10);
    }

    @Test
    void statementsWithSubqueriesReadTheBlocksOfTheirKeys() {
        assertEquals(
                new Read(1, BLOCKS_OF_A_PART - 1, 10),
                run("DELETE FROM TARGET WHERE id IN (SELECT id FROM range(500, 510))"));
        expect("true", 990);
        assertEquals(
                new Read(1, BLOCKS_OF_A_PART - 1, 10),
                run(
                        "UPDATE TARGET SET name = 'merged'"
                                + " WHERE id IN (SELECT id FROM range(200, 210))"));
        expect("name = 'merged'", 10);
        assertEquals(
                ALL - 1,
                run("DELETE FROM TARGET WHERE id NOT IN (SELECT id FROM range(10, 990))").blocks);
        expect("true", 970);
    }

    /// So the rule need not look for them.
    @Test
    void sparkRefusesSourcesThatChanceDecides() {
        spark.udf()
                .register(
                        "chance",
                        functions.udf((Long id) -> id, DataTypes.LongType).asNondeterministic());
        for (String statement :
                List.of(
                        "DELETE FROM TARGET WHERE id IN (SELECT chance(id) FROM range(500, 510))",
                        "MERGE INTO TARGET t USING (SELECT chance(id) id FROM range(5)) s"
                                + " ON t.id = s.id WHEN MATCHED THEN DELETE",
                        "MERGE INTO TARGET t USING (SELECT * FROM range(5) WHERE rand() < 0.5) s"
                                + " ON t.id = s.id WHEN MATCHED THEN DELETE")) {
            assertTrue(
                    assertThrows(Exception.class, () -> run(statement), statement)
                            .getMessage()
                            .contains("INVALID_NON_DETERMINISTIC_EXPRESSIONS"),
                    statement);
        }
        expect("true", 1000);
    }

    @Test
    void statementsWithConditionsReadTheBlocksOfThese() {
        assertEquals(
                new Read(1, BLOCKS_OF_A_PART - 1, 10),
                run("DELETE FROM TARGET WHERE id BETWEEN 500 AND 509 AND name LIKE '%name%'"));
        assertEquals(
                new Read(1, BLOCKS_OF_A_PART - 1, 10),
                run("UPDATE TARGET SET name = 'new' WHERE id >= 620 AND id < 630"));
        expect("name = 'new'", 10);
        expect("true", 990);
    }

    @Test
    void keysOfPartitionsLeaveOthersOut() {
        String path = dir.resolve("partitions").toString();
        table = "terrace.`" + path + "`";
        spark.sql(
                "CREATE TABLE "
                        + table
                        + " (id BIGINT, name STRING, day STRING) PARTITIONED BY (day)"
                        + " TBLPROPERTIES ('extent' = '1048576')");
        prepare("INSERT INTO TARGET SELECT id, 'old', concat('day ', id % 5) FROM range(100)");
        Read read =
                run(
                        "MERGE INTO TARGET t USING (VALUES ('day 3', 3), ('day 3', 5) AS s(day,"
                            + " id)) s ON t.day = s.day AND t.name <> s.day AND t.id % 100 = s.id"
                            + " WHEN MATCHED THEN DELETE");
        assertEquals(1, read.blocks);
        expect("true", 99);
    }

    private void prepare(String statement) {
        spark.sql(statement.replace("TARGET", table));
    }

    @Test
    void theFilterCanBeSwitchedOff() {
        spark.conf().set(ENABLED, false);
        assertEquals(new Read(ALL, 0, 1000), merge("(SELECT id FROM range(5))", UPDATE));
        expect("name = 'merged'", 5);
    }

    /// The session that changes rows first has the rule once, and keeps rules of others.
    @Test
    void aSessionHasTheRuleOnce() {
        var methods =
                ((org.apache.spark.sql.classic.SparkSession) spark.newSession()).experimental();
        SparkSession other = spark.newSession();
        merge("(SELECT id FROM range(5))", UPDATE);
        merge("(SELECT id FROM range(5))", UPDATE);
        assertEquals(0, methods.extraOptimizations().size());
        KeyFilters.addTo(other);
        KeyFilters.addTo(other);
        assertEquals(
                1,
                ((org.apache.spark.sql.classic.SparkSession) other)
                        .experimental()
                        .extraOptimizations()
                        .size());
    }
}
