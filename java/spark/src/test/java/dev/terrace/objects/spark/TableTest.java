package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// Tables: how they are written, and what each save mode does.
@ExtendWith(LocalSpark.class)
class TableTest {
    @TempDir
    private Path dir;

    private static Dataset<Row> numbers(SparkSession spark, int from, int to) {
        return spark.range(from, to, 1, 2).selectExpr("id", "cast(id as string) name", "id * 0.5D half");
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
        assertThrows(AnalysisException.class, () -> write(numbers(spark, 0, 5), SaveMode.ErrorIfExists));
        write(numbers(spark, 0, 5), SaveMode.Ignore);
        expect(numbers(spark, 0, 10), read(spark));
        write(numbers(spark, 10, 20), SaveMode.Append);
        expect(numbers(spark, 0, 20), read(spark));
        write(numbers(spark, 5, 8), SaveMode.Overwrite);
        expect(numbers(spark, 5, 8), read(spark));
    }
}
