package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Parts of a table that are written anew.
@ExtendWith(LocalSpark.class)
class OptimizationTest {
    @TempDir private Path dir;

    private final SparkSession spark;
    private String table = "";

    OptimizationTest(SparkSession spark) {
        this.spark = spark;
    }

    @BeforeEach
    void nameTable() {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        table = "terrace.`" + dir + "`";
    }

    private void append(long from, long to) {
        append(spark.range(from, to, 1, 1).selectExpr("id", "concat('name ', id % 7) name"));
    }

    private void append(Dataset<Row> rows) {
        rows.write()
                .format("terrace")
                .option("extent", 1 << 20)
                .option("block.rows", 20)
                .mode("append")
                .save(dir.toString());
    }

    private ManifestLog log() throws IOException {
        return new ManifestLog(dir.toString(), new Configuration(false));
    }

    private Manifest manifest() throws IOException {
        return log().require(Manifest.TABLE);
    }

    private List<String> rows() {
        return ParquetEqualityTest.sorted(spark.sql("SELECT * FROM " + table));
    }

    private Set<String> names(String directory) throws IOException {
        if (!Files.exists(dir.resolve(directory))) {
            return Set.of();
        }
        try (var files = Files.list(dir.resolve(directory))) {
            return new HashSet<>(files.map(path -> path.getFileName().toString()).toList());
        }
    }

    @Test
    void smallPartsBecomeOneWithTheSameRows() throws IOException {
        for (int i = 0; i < 6; i++) {
            append(100L * i, 100L * i + 100);
        }
        spark.sql("DELETE FROM " + table + " WHERE id % 3 = 1 AND name <> 'x'");
        List<String> before = rows();
        Optimization.Rewritten rewritten = Optimization.defaults().run(spark, dir.toString());
        assertEquals(6, rewritten.partsBefore());
        assertEquals(1, rewritten.partsAfter());
        assertEquals(0, rewritten.partsLeft());
        assertTrue(rewritten.bytesAfter() < rewritten.bytesBefore(), rewritten::toString);
        assertEquals(before, rows());
        Manifest now = manifest();
        assertEquals(1, now.parts().size());
        assertEquals(rewritten.bytesAfter(), now.bytes());
        assertTrue(!now.hasDeletions());
        assertEquals(Set.of(), names("jobs"));
        assertEquals(
                before,
                ParquetEqualityTest.sorted(
                        spark.sql("SELECT * FROM " + table + " VERSION AS OF 7")));
        assertEquals(
                new Optimization.Rewritten(0, 0, 0, 0, 0),
                Optimization.defaults().run(spark, dir.toString()));
        assertEquals(now.number(), manifest().number(), "nothing was committed");
    }

    /// Tables of chance, changed and written anew by chance, have the rows that they had.
    @ParameterizedTest
    @ValueSource(longs = {1, 2, 3, 4})
    void rowsOfAllTypesStayAsTheyAre(long seed) throws IOException {
        Random random = new Random(seed);
        RandomTable generated = new RandomTable(random);
        for (int i = 0; i < 3; i++) {
            append(generated.rows(spark));
            append(generated.others(spark, random));
        }
        spark.sql("DELETE FROM " + table + " WHERE c0 % 5 = 2 AND c0 IS NOT NULL");
        List<String> before = rows();
        long target = 1 + random.nextInt(200_000);
        Optimization optimization =
                Optimization.defaults()
                        .targetBytes(target)
                        .minFill(random.nextDouble())
                        .maxDeleted(random.nextDouble() / 4);
        if (random.nextBoolean()) {
            String other =
                    Stream.generate(() -> generated.column(random))
                            .filter(column -> ParquetEqualityTest.isOrdered(column.dataType()))
                            .findFirst()
                            .orElseThrow()
                            .name();
            optimization = optimization.sortedBy("c0", other);
        }
        Optimization.Rewritten rewritten = optimization.run(spark, dir.toString());
        assertEquals(before, rows(), "seed " + seed + ", " + optimization + ", " + rewritten);
        assertEquals(before.size(), manifest().rows());
        rewritten = optimization.ofAllParts().sortedBy().run(spark, dir.toString());
        assertEquals(before, rows(), "seed " + seed + ", " + rewritten);
        assertTrue(!manifest().hasDeletions());
    }

    @Test
    void partsThatAreWellFilledAreNotRead() throws IOException {
        append(0, 4000);
        String full = manifest().parts().getFirst().name();
        append(4000, 4100);
        append(4100, 4200);
        long target = manifest().parts().getFirst().bytes();
        Files.move(dir.resolve("parts").resolve(full), dir.resolve("hidden"));
        Optimization.Rewritten rewritten =
                Optimization.defaults().targetBytes(target).run(spark, dir.toString());
        Files.move(dir.resolve("hidden"), dir.resolve("parts").resolve(full));
        assertEquals(2, rewritten.partsBefore());
        assertEquals(1, rewritten.partsAfter());
        assertEquals(full, manifest().parts().getFirst().name());
        assertEquals(4200, rows().size());
        // Of a part that is well filled and has many deleted rows one is made that has none.
        spark.sql("DELETE FROM " + table + " WHERE id < 4000 AND id % 3 = 0 AND name <> 'x'");
        rewritten =
                Optimization.defaults().targetBytes(target).minFill(0).run(spark, dir.toString());
        assertEquals(1, rewritten.partsBefore());
        assertTrue(!manifest().hasDeletions());
        assertEquals(2866, rows().size());
    }

    @Test
    void rowsAreSortedOverAllParts() throws IOException {
        for (int i = 0; i < 4; i++) {
            append(spark.range(i, 4000, 4, 1).selectExpr("(id * 7919) % 4001 id", "'a' name"));
        }
        List<String> before = rows();
        long target = manifest().bytes() / 3;
        Optimization.Rewritten rewritten =
                Optimization.defaults()
                        .targetBytes(target)
                        .sortedBy("ID")
                        .ofAllParts()
                        .run(spark, dir.toString());
        assertEquals(4, rewritten.partsBefore());
        assertTrue(rewritten.partsAfter() > 1, rewritten::toString);
        assertEquals(before, rows());
        List<Part> parts = manifest().parts();
        for (int i = 1; i < parts.size(); i++) {
            byte[] max = parts.get(i - 1).columns().getFirst().max();
            byte[] min = parts.get(i).columns().getFirst().min();
            assertTrue(max != null && min != null && OrderKeys.compare(max, min) < 0);
        }
    }

    @Test
    void whatOthersCommitMeanwhileStays() throws IOException {
        for (int i = 0; i < 4; i++) {
            append(100L * i, 100L * i + 100);
        }
        Manifest before = manifest();
        Optimization two =
                Optimization.defaults().targetBytes(before.parts().getFirst().bytes() * 2 + 10);
        RewritePlan plan = RewritePlan.of(before, two);
        assertEquals(2, plan.groups().size());
        append(400, 500);
        spark.sql("DELETE FROM " + table + " WHERE id = 5 AND name <> 'x'");
        Optimization.Rewritten rewritten = table(before, plan).run(spark);
        assertEquals(2, rewritten.partsBefore());
        assertEquals(2, rewritten.partsLeft());
        assertEquals(1, rewritten.partsAfter());
        assertEquals(499, rows().size());
        assertEquals(
                6, names("parts").size(), "five that were appended, and one that two have become");
        // All of it has changed now.
        RewriteTable again = table(before, plan);
        CommitConflictException refused =
                assertThrows(
                        CommitConflictException.class, () -> unwrapped(() -> again.run(spark)));
        assertTrue(refused.getMessage().contains("changed nothing"), refused::getMessage);
        assertEquals(499, rows().size());
        assertEquals(Set.of(), names("jobs"));
    }

    private static void unwrapped(Runnable work) throws IOException {
        try {
            work.run();
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }

    private RewriteTable table(Manifest before, RewritePlan plan) throws IOException {
        TableOptions options = new TableOptions(before.options());
        PartStore store =
                new PartStore(log().root(), options.partitions(), new Configuration(false));
        return new RewriteTable(log(), store, before, options, plan);
    }

    @Test
    void aStatementWhoseRowsWereMovedIsToldAndLosesNothing() throws Exception {
        for (int i = 0; i < 4; i++) {
            append(100L * i, 100L * i + 100);
        }
        try (var sessions = Executors.newFixedThreadPool(3)) {
            List<Future<?>> all = new ArrayList<>();
            for (int digit = 0; digit < 2; digit++) {
                String statement =
                        "DELETE FROM " + table + " WHERE id % 10 = " + digit + " AND name <> 'x'";
                all.add(sessions.submit(() -> untilDone(() -> spark.sql(statement))));
            }
            all.add(
                    sessions.submit(() -> {
                        for (int i = 0; i < 3; i++) {
                            untilDone(() -> optimizeAll());
                        }
                    }));
            for (Future<?> done : all) {
                done.get();
            }
        }
        assertEquals(320, rows().size());
        assertEquals(0, spark.sql("SELECT * FROM " + table + " WHERE id % 10 < 2").count());
    }

    private void optimizeAll() {
        try {
            Optimization.defaults().ofAllParts().run(spark, dir.toString());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// Runs something again for as long as it meets others.
    private static void untilDone(Runnable work) {
        while (true) {
            try {
                work.run();
                return;
            } catch (UncheckedIOException e) {
                if (!(e.getCause() instanceof CommitConflictException)) {
                    throw e;
                }
            }
        }
    }

    /// The driver was killed before its commit: a vacuum finds what it wrote.
    @Test
    void whatAKilledDriverLeftIsRemoved() throws IOException {
        append(0, 100);
        append(100, 200);
        Manifest before = manifest();
        WriteJob job =
                WriteJob.begin(
                        log(),
                        new PartStore(
                                log().root(),
                                PartitionOptions.defaults(),
                                new Configuration(false)));
        Path part = dir.resolve("parts").resolve(WriteJob.partName(job.id(), 0, 7));
        Files.createDirectories(part);
        Files.writeString(part.resolve("pool"), "half of it");
        assertEquals(200, rows().size());
        Snapshots.Removed removed =
                Snapshots.vacuum(
                        log(), new Configuration(false), Instant.now().plus(Duration.ofDays(1)));
        assertEquals(1, removed.parts());
        assertEquals(before.names(), names("parts"));
        assertEquals(200, rows().size());
    }

    @Test
    void proceduresAreCalledBySql() throws IOException {
        append(0, 100);
        append(100, 200);
        Row rewritten =
                spark.sql(
                                "CALL terrace.system.optimize(table => '"
                                        + dir
                                        + "', sort_by => array('name', 'id'), min_fill => 0.5)")
                        .first();
        assertEquals(2, rewritten.getInt(0));
        assertEquals(1, rewritten.getInt(2));
        assertEquals(0, rewritten.getInt(4));
        assertEquals(200, rows().size());
        assertEquals(
                "[0,0]", spark.sql("CALL terrace.system.vacuum('" + dir + "')").first().toString());
        assertEquals(
                "[2,2]",
                spark.sql("CALL terrace.system.vacuum(table => '" + dir + "', age_hours => 0)")
                        .first()
                        .toString());
        assertEquals(200, rows().size());
        assertEquals(1, names("parts").size());
        assertEquals(2, spark.sql("SHOW PROCEDURES IN terrace.system").count());
    }

    @Test
    void whatCannotBeIsRefusedWithAReason() {
        append(0, 100);
        for (List<String> each :
                List.of(
                        List.of(
                                "optimize(table => 'PATH', min_fill => 1.5)",
                                "min_fill: a fraction"),
                        List.of("optimize(table => 'PATH', max_deleted => -1)", "max_deleted"),
                        List.of("optimize('PATH', target_bytes => 0)", "1 byte at least"),
                        List.of(
                                "optimize('PATH', sort_by => array('nam'))",
                                "sort_by: the table has no column nam. It has, the nearest first:"
                                        + " name, id"),
                        List.of("optimize('PATH', sort_by => NULL)", "sort_by: NULL is no value"),
                        List.of(
                                "optimize('PATH', sort_by => array('id', NULL))",
                                "sort_by: NULL is no column"),
                        List.of("optimize(NULL)", "table: NULL is no value: give one"),
                        List.of("optimize('PATH/none')", "holds no table"),
                        List.of("vacuum('PATH', age_hours => -1)", "age_hours: an age has from 0"),
                        List.of(
                                "vacuum('PATH', age_hours => 9223372036854775807)",
                                "age_hours: an age has from 0"),
                        List.of("optimise('PATH')", "there is no procedure"))) {
            String call = "CALL terrace.system." + each.getFirst();
            Throwable refused =
                    assertThrows(
                            Exception.class,
                            () -> spark.sql(call.replace("PATH", dir.toString())),
                            call);
            StringBuilder messages = new StringBuilder(call).append('\n');
            for (Throwable cause = refused; cause != null; cause = cause.getCause()) {
                messages.append(cause.getMessage()).append('\n');
            }
            assertTrue(messages.toString().contains(each.getLast()), messages::toString);
        }
        assertThrows(
                FileNotFoundException.class,
                () -> Optimization.defaults().run(spark, dir.resolve("none").toString()));
    }
}
