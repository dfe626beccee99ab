package dev.terrace.objects.evaluation.spark;

import java.nio.file.Path;
import java.util.List;
import org.apache.spark.launcher.JavaModuleOptions;
import org.apache.spark.sql.SparkSession;

/// Spark in one process, on two of its threads.
public final class LocalSpark {
    /// The options of a Java process in which Spark runs.
    public static final List<String> FLAGS = List.of(JavaModuleOptions.defaultModuleOptionArray());

    private static final String MASTER = "local[2]";

    private LocalSpark() {}

    /// Starts it.
    ///
    /// @param directory where it may put what it needs no longer than it runs
    public static SparkSession start(Path directory) {
        return SparkSession.builder()
                .master(MASTER)
                .appName("terrace-objects-evaluation")
                .config("spark.ui.enabled", false)
                .config("spark.log.level", "WARN")
                .config("spark.driver.host", "localhost")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.local.dir", directory.toString())
                .config(
                        "spark.sql.warehouse.dir",
                        directory.resolve("warehouse").toUri().toString())
                .getOrCreate();
    }
}
