package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import jdk.jfr.Recording;
import jdk.jfr.consumer.RecordingFile;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.execution.CommandResultExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec;
import org.apache.spark.sql.execution.adaptive.QueryStageExec;
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec;
import org.apache.spark.sql.functions;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;
import scala.jdk.javaapi.CollectionConverters;

/// What a query does not need it does not read: the disk's reads are counted, as a recording shows
/// them.
@ExtendWith(LocalSpark.class)
class PruningTest {
    private static final String DISK_READ = "dev.terrace.objects.DiskRead";
    private static final int ROWS = 1000;
    private static final int BLOCK_ROWS = 50;

    /// A value has its bytes, and where each row's begin; no row is null.
    private static final int READS_OF_A_BLOCK = 2;

    private static final String BROADCAST = "spark.sql.autoBroadcastJoinThreshold";

    @TempDir private Path dir;

    @BeforeEach
    void writePeople(SparkSession spark) {
        spark.range(0, ROWS, 1, 2)
                .selectExpr(
                        "id",
                        "id % 10 age",
                        "concat('name ', 10000 + id) name",
                        "encode(repeat(cast(id as string), 50), 'utf-8') image",
                        "if(id < 100, null, id) late")
                .write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("block.rows", BLOCK_ROWS)
                .option("tier.image", "DISK")
                .save(dir.toString());
    }

    private Dataset<Row> people(SparkSession spark) {
        return spark.read().format("terrace").load(dir.toString());
    }

    private long diskReads(Executable query) throws Throwable {
        Path file = dir.resolve("recording.jfr");
        try (Recording recording = new Recording()) {
            recording.enable(DISK_READ).withoutThreshold();
            recording.start();
            query.execute();
            recording.stop();
            recording.dump(file);
        }
        return count(file);
    }

    private long count(Path file) throws IOException {
        return RecordingFile.readAllEvents(file).stream()
                .filter(event -> event.getEventType().getName().equals(DISK_READ))
                .filter(event -> event.getString("file").startsWith(dir.toString()))
                .count();
    }

    @Test
    void aQueryThatDoesNotNameAColumnDoesNotTouchItsTier(SparkSession spark) throws Throwable {
        assertEquals(
                0, diskReads(() -> people(spark).select("id", "age", "name", "late").collect()));
        assertEquals(
                0,
                diskReads(() ->
                        people(spark)
                                .filter("age = 3 or name like '%7'")
                                .groupBy("age")
                                .count()
                                .collect()));
        assertEquals(0, diskReads(() -> people(spark).filter("id > 10").count()));
        assertEquals(
                ROWS / BLOCK_ROWS * READS_OF_A_BLOCK,
                diskReads(() -> people(spark).select("image").collect()));
    }

    @Test
    void aStreamThatDoesNotNameAColumnDoesNotTouchItsTier(SparkSession spark) throws Throwable {
        TableStreams streams = new TableStreams(spark, dir);
        Dataset<Row> rows = spark.readStream().format("terrace").load(dir.toString());
        assertEquals(
                0,
                diskReads(() ->
                        streams.run(rows.select("id", "age", "late"), "few", Dataset::collect)));
        assertEquals(
                ROWS / BLOCK_ROWS * READS_OF_A_BLOCK,
                diskReads(() -> streams.run(rows.select("image"), "image", Dataset::collect)));
    }

    @Test
    void plansShowConditionsInWords(SparkSession spark) {
        for (List<String> condition :
                List.of(
                        List.of("age > 3", "blocks where age is not null and age > 3"),
                        List.of(
                                "age <= 3 or late is null",
                                "blocks where (age <= 3 or late is null)"),
                        List.of(
                                "name = 'name 10000'",
                                "blocks where name is not null and name = 'name 10000'"),
                        List.of("name like 'name 1%'", "name starts with 'name 1'"),
                        List.of("name in ('a', 'b')", "(name = 'a' or name = 'b')"),
                        List.of("image = X'00ff'", "image = X'00FF'"))) {
            String plan = people(spark).filter(condition.get(0)).queryExecution().toString();
            assertTrue(plan.contains(condition.get(1)), plan);
            assertFalse(
                    plan.contains("Comparison")
                            || plan.contains("Nullness")
                            || plan.contains("Several"),
                    plan);
        }
        String many =
                IntStream.range(0, 10_000)
                        .mapToObj(i -> "'" + "long ".repeat(20) + i + "'")
                        .collect(Collectors.joining(", "));
        String plan =
                people(spark)
                        .filter("name in (" + many + ")")
                        .queryExecution()
                        .executedPlan()
                        .toString();
        assertTrue(plan.length() < 10_000, () -> "it has " + plan.length());
    }

    @Test
    void blocksWithoutRowsForAConditionAreNotRead(SparkSession spark) throws Throwable {
        for (String condition :
                List.of(
                        "id = 77",
                        "id < 50",
                        "id in (3, 4)",
                        "id >= 980",
                        "id > 120 and id < 140",
                        "name = 'name 10077'",
                        "name like 'name 1007%'",
                        "name >= 'name 10990'",
                        "id <=> 5",
                        "id between 951 and 960 and late is not null")) {
            long reads =
                    diskReads(() ->
                            assertTrue(
                                    people(spark).filter(condition).select("image").count() > 0));
            assertTrue(reads <= READS_OF_A_BLOCK, condition + ": " + reads);
            reads =
                    diskReads(() ->
                            assertTrue(
                                    people(spark)
                                                    .filter(condition)
                                                    .select("image")
                                                    .collectAsList()
                                                    .size()
                                            > 0));
            assertEquals(READS_OF_A_BLOCK, reads, condition);
        }
        assertEquals(
                2 * READS_OF_A_BLOCK,
                diskReads(() -> people(spark).filter("late is null").select("image").collect()));
        assertEquals(
                2 * READS_OF_A_BLOCK,
                diskReads(() ->
                        people(spark).filter("id = 0 or id = 999").select("image").collect()));
        assertEquals(
                0,
                diskReads(() ->
                        people(spark).filter("id = -1 or name is null").select("image").collect()));
    }

    /// Of how many rows the scans of a query gave the values.
    static long scanned(Dataset<Row> rows) {
        rows.collectAsList();
        return scans(rows.queryExecution().executedPlan())
                .mapToLong(scan -> scan.metrics().apply("numOutputRows").value())
                .sum();
    }

    static Stream<SparkPlan> scans(SparkPlan plan) {
        return CollectionConverters.asJava(plan.collectLeaves()).stream()
                .flatMap(leaf ->
                        switch (leaf) {
                            case AdaptiveSparkPlanExec all -> scans(all.executedPlan());
                            case QueryStageExec stage -> scans(stage.plan());
                            case CommandResultExec done -> scans(done.commandPhysicalPlan());
                            case BatchScanExec scan -> Stream.of(scan);
                            default -> Stream.of();
                        });
    }

    @Test
    void rowsThatDoNotMeetAConditionDoNotLeaveTheScan(SparkSession spark) {
        String twenty =
                IntStream.range(0, 20)
                        .mapToObj(i -> Integer.toString(i * 10))
                        .collect(Collectors.joining(", "));
        for (Map.Entry<String, Integer> condition :
                Map.of(
                                "age = 3",
                                100,
                                "age < 3 and late is null",
                                30,
                                "age > 7 and age <= 8",
                                100,
                                "name >= 'name 10990'",
                                10,
                                "name < 'name 10003' or id = 77",
                                4,
                                "name like 'name 1007%'",
                                10,
                                "name = 'name 10077'",
                                1,
                                "age in (1, 2)",
                                200,
                                "id in (" + twenty + ")",
                                20)
                        .entrySet()) {
            assertEquals(
                    (long) condition.getValue(),
                    scanned(people(spark).filter(condition.getKey()).select("name")),
                    condition.getKey());
        }
    }

    /// Rows one behind the other are faster to read, and Spark looks at each once more.
    @Test
    void blocksOfWhichMostRowsMeetAConditionAreReadWhole(SparkSession spark) {
        Dataset<Row> most = people(spark).filter("age < 8").select("name");
        assertEquals(1000, scanned(most));
        assertEquals(800, most.collectAsList().size());
        assertEquals(700, scanned(people(spark).filter("age < 7").select("name")));
    }

    @Test
    void aBlockWithoutARowForAConditionIsReadOnlyAsFarAsThatShows(SparkSession spark)
            throws Throwable {
        // By its bounds, the block of 77 may have such a row.
        String condition = "id = 77 and age = 3";
        assertEquals(0, diskReads(() -> people(spark).filter(condition).select("image").collect()));
        assertEquals(0, scanned(people(spark).filter(condition).select("name")));
    }

    @Test
    void keysOfATableThatIsJoinedLeaveRowsOut(SparkSession spark) {
        Dataset<Row> people = people(spark);
        // So that people are no small table.
        spark.conf().set(BROADCAST, 100);
        for (int keys : List.of(3, 50)) {
            Dataset<Row> some =
                    spark.range(0, 2L * keys)
                            .selectExpr("id * 7 key", "id number")
                            .filter("number < " + keys);
            Dataset<Row> joined =
                    people.join(
                                    functions.broadcast(some),
                                    people.col("id").equalTo(some.col("key")))
                            .select("name");
            assertEquals(keys, scanned(joined));
            assertEquals(keys, joined.collectAsList().size());
        }
        Dataset<Row> none = spark.range(0, 10).selectExpr("id key").filter("key > 20");
        assertEquals(
                0,
                people.join(functions.broadcast(none), people.col("id").equalTo(none.col("key")))
                        .collectAsList()
                        .size());
    }

    /// Spark would filter the first table of both, and give up since it broadcasts that one.
    @Test
    void aSmallTableIsWhatOthersAreFilteredBy(SparkSession spark) {
        Dataset<Row> some = people(spark).filter("age = 3").select("id");
        Dataset<Row> people = people(spark);
        spark.conf().set(BROADCAST, 5000);
        Dataset<Row> joined =
                some.join(people, some.col("id").equalTo(people.col("id"))).select("name");
        assertEquals(100 + 100, scanned(joined));
        spark.conf().set(BROADCAST, 1 << 20);
        assertEquals(
                100 + 1000, scanned(some.join(people, some.col("id").equalTo(people.col("id")))));
    }

    @AfterEach
    void broadcastAsBefore(SparkSession spark) {
        spark.conf().unset(BROADCAST);
    }

    @Test
    void whoWantsFewRowsReadsFewBlocks(SparkSession spark) throws Throwable {
        assertEquals(
                READS_OF_A_BLOCK,
                diskReads(() -> people(spark).select("image").limit(5).collect()));
        assertEquals(5, people(spark).limit(5).count());
    }

    @Test
    void whatTheManifestKnowsNeedsNoPool(SparkSession spark) {
        Dataset<Row> counts =
                people(spark).selectExpr("count(*)", "count(late)", "min(id)", "max(late)");
        assertEquals("[1000,900,0,999]", counts.first().toString());
        assertTrue(
                counts.queryExecution().executedPlan().toString().contains("of its manifest"),
                counts.queryExecution().executedPlan()::toString);
        Dataset<Row> names = people(spark).selectExpr("max(name)");
        assertEquals("[name 10999]", names.first().toString());
    }

    @Test
    void partsWithoutRowsForAConditionAreNoPartitions(SparkSession spark) {
        assertEquals(2, people(spark).filter("age = 3").javaRDD().getNumPartitions());
        assertEquals(1, people(spark).filter("id < 500 and age = 3").javaRDD().getNumPartitions());
        assertEquals(1, people(spark).filter("late is null").javaRDD().getNumPartitions());
    }

    @Test
    void aLongPartIsReadBySeveralTasks(SparkSession spark) {
        // 500 rows of a part have 4000 bytes, and its 10 blocks are dealt out to 4 tasks.
        Dataset<Row> ids =
                spark.read()
                        .format("terrace")
                        .option("split.bytes", 1000)
                        .load(dir.toString())
                        .select("id");
        assertEquals(8, ids.javaRDD().getNumPartitions());
        assertEquals(
                people(spark).select("id").orderBy("id").collectAsList(),
                ids.orderBy("id").collectAsList());
        List<Integer> rows =
                ids.javaRDD()
                        .mapPartitions(part -> {
                            int count = 0;
                            for (; part.hasNext(); part.next()) {
                                count++;
                            }
                            return List.of(count).iterator();
                        })
                        .collect();
        assertEquals(List.of(150, 150, 100, 100, 150, 150, 100, 100), rows);
    }

    @Test
    void theOptimizerKnowsHowLargeTheColumnsAre(SparkSession spark) {
        var statistics = people(spark).select("late").queryExecution().optimizedPlan().stats();
        // 400 and 500 numbers of as many bits as the distance of their bounds has: 9 each.
        assertEquals(2 * packed(500), statistics.sizeInBytes().toLong());
        assertEquals(ROWS, statistics.rowCount().get().toLong());
        var late =
                CollectionConverters.asJava(statistics.attributeStats()).values().iterator().next();
        assertEquals(
                "100, 100, 999",
                late.nullCount().get() + ", " + late.min().get() + ", " + late.max().get());
        long images =
                people(spark)
                        .select("image")
                        .queryExecution()
                        .optimizedPlan()
                        .stats()
                        .sizeInBytes()
                        .toLong();
        assertTrue(images > 100 * ROWS, () -> "images: " + images);
    }

    /// The bytes of so many ids of a part, which are the numbers from 0 to 499 or 500 to 999: nine
    /// bits each.
    private static long packed(int rows) {
        return rows * 9 / Byte.SIZE;
    }

    /// How many bytes of ids a query gets, as the optimizer knows it.
    private long bytesOfIds(SparkSession spark, String condition) {
        return people(spark)
                .filter(condition)
                .select("id")
                .queryExecution()
                .optimizedPlan()
                .collectLeaves()
                .head()
                .stats()
                .sizeInBytes()
                .toLong();
    }

    @Test
    void theOptimizerKnowsAboutHowFewRowsMeetAFilter(SparkSession spark) {
        long all = 2 * packed(500);
        assertEquals(all, bytesOfIds(spark, "id >= 0"));
        // Of the 500 rows of either part.
        assertEquals(packed(125), bytesOfIds(spark, "id < 125"));
        // Each part's bytes are rounded down.
        assertEquals(packed(249), bytesOfIds(spark, "id >= 250 and id < 499 and id < 700"), 1);
        assertEquals(packed(400) + packed(249), bytesOfIds(spark, "id >= 100 and id < 749"), 2);
        // Never less than an eighth, and never less because of what is not known.
        assertEquals(packed(500) / 8, bytesOfIds(spark, "id = 7"));
        assertEquals(all, bytesOfIds(spark, "id >= 900 or id < 100"));
        assertEquals(all, bytesOfIds(spark, "id is not null"));
    }

    @Test
    void theUserInterfaceShowsBlocksThatWereSkipped(SparkSession spark) {
        Dataset<Row> rows = people(spark).filter("id >= 980").select("name");
        assertEquals(20, rows.collectAsList().size());
        var metrics = rows.queryExecution().executedPlan().collectLeaves().head().metrics();
        assertEquals(1, metrics.apply("blocksRead").value());
        // Those of the part that was left out are not counted.
        assertEquals(9, metrics.apply("blocksSkipped").value());
    }

    @Test
    void partitionsPreferTheNodeThatWroteThem(SparkSession spark) {
        RDD<?> rdd = people(spark).rdd();
        while (rdd.dependencies().nonEmpty()) {
            rdd = rdd.dependencies().head().rdd();
        }
        for (var partition : rdd.partitions()) {
            assertEquals(
                    Hosts.local(), CollectionConverters.asJava(rdd.preferredLocations(partition)));
        }
    }
}
