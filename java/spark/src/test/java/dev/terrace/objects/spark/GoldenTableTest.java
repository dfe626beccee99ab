package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import java.util.stream.LongStream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// A table that was made when its manifests' version was the last, by [#STATEMENTS], is read in
/// each of its versions, changed, and grows to one of a later version.
@ExtendWith(LocalSpark.class)
class GoldenTableTest {
    private static final String GOLDEN = "/golden-table-7.zip";

    /// How its commits came about, the first by the first.
    static final List<String> STATEMENTS =
            List.of(
                    "CREATE TABLE TARGET (id BIGINT, name STRING, at STRUCT<x: INT, y: DOUBLE>,"
                            + " notes MAP<STRING, INT>, day DATE) PARTITIONED BY (day)"
                            + " TBLPROPERTIES ('extent' = '1048576', 'tier.notes' = 'DISK')",
                    "INSERT INTO TARGET SELECT id, concat('name ', id),"
                            + " named_struct('x', int(id), 'y', id / 2), map('a', int(id), 'b', 2),"
                            + " date_add(DATE'2030-01-01', int(id % 2)) FROM range(0, 100, 1, 1)",
                    "DELETE FROM TARGET WHERE id % 10 = 3 AND name <> ''",
                    "UPDATE TARGET SET name = 'changed', notes = map() WHERE id < 6",
                    "CALL terrace.system.optimize(table => 'PATH', all_parts => true)",
                    "INSERT INTO TARGET VALUES (1000, NULL, NULL, NULL, NULL)",
                    "DELETE FROM TARGET WHERE at.x = 50");

    @TempDir private Path dir;

    private final SparkSession spark;

    GoldenTableTest(SparkSession spark) {
        this.spark = spark;
    }

    @BeforeEach
    void extract() throws IOException {
        spark.conf().set("spark.sql.catalog.terrace", TerraceCatalog.class.getName());
        InputStream stored = Objects.requireNonNull(getClass().getResourceAsStream(GOLDEN));
        try (ZipInputStream zip = new ZipInputStream(stored)) {
            for (ZipEntry file = zip.getNextEntry(); file != null; file = zip.getNextEntry()) {
                Path path = golden().resolve(file.getName());
                Files.createDirectories(path.getParent());
                Files.write(path, zip.readAllBytes());
            }
        }
    }

    private Path golden() {
        return dir.resolve("golden");
    }

    static void run(SparkSession spark, String statement, Path path) {
        spark.sql(statement.replace("TARGET", "terrace.`" + path + "`").replace("PATH", "" + path))
                .collect();
    }

    private List<String> rows(Path path, long version) {
        Dataset<Row> rows =
                spark.read().format("terrace").option("versionAsOf", version).load(path.toString());
        assertEquals(5, rows.columns().length);
        return ParquetEqualityTest.sorted(rows);
    }

    private static ManifestLog log(Path path) throws IOException {
        return new ManifestLog(path.toString(), new Configuration(false));
    }

    private static String front(Path path, long number) throws IOException {
        Path file = path.resolve("manifests").resolve(String.format("%019d", number));
        return new String(Files.readAllBytes(file), StandardCharsets.UTF_8).substring(0, 19);
    }

    @Test
    void eachOfItsVersionsIsRead() throws IOException {
        Path now = dir.resolve("now");
        STATEMENTS.forEach(statement -> run(spark, statement, now));
        List<Long> numbers = LongStream.rangeClosed(1, STATEMENTS.size()).boxed().toList();
        assertEquals(numbers, log(golden()).numbers());
        for (long number : numbers) {
            assertEquals("terrace-manifest 7 ", front(golden(), number));
            assertEquals("terrace-manifest 7 ", front(now, number), "as it is written now");
            List<String> rows = rows(golden(), number);
            assertEquals(rows(now, number), rows, () -> "version " + number);
            assertEquals(List.of(0, 100, 90, 90, 90, 91, 90).get((int) number - 1), rows.size());
        }
        assertTrue(log(golden()).at(3).hasDeletions());
        assertTrue(log(golden()).at(5).rewrites());
    }

    @Test
    void itIsChangedAndGrows() throws IOException {
        run(spark, "DELETE FROM TARGET WHERE id < 20 AND name <> ''", golden());
        run(
                spark,
                "MERGE INTO TARGET t USING (SELECT id FROM range(98, 102)) s ON t.id = s.id"
                        + " WHEN MATCHED THEN UPDATE SET name = 'merged'"
                        + " WHEN NOT MATCHED THEN INSERT (id, name) VALUES (s.id, 'new')",
                golden());
        List<String> before = rows(golden(), 9);
        assertEquals(90 - 18 + 2, before.size());
        run(
                spark,
                "INSERT INTO TARGET SELECT id, 'late', NULL, NULL,"
                        + " date_add(DATE'2031-01-01', int(id)) FROM range(60)",
                golden());
        assertEquals("terrace-manifest 8 ", front(golden(), 10));
        assertEquals(before.size() + 60, rows(golden(), 10).size());
        assertEquals(before, rows(golden(), 9));
        assertEquals(90, rows(golden(), 7).size());
        Snapshots.vacuum(
                JavaSparkContext.fromSparkContext(spark.sparkContext()),
                golden().toString(),
                Duration.ofDays(-1));
        assertEquals(List.of(10L), log(golden()).numbers());
        assertEquals(before.size() + 60, rows(golden(), 10).size());
    }
}
