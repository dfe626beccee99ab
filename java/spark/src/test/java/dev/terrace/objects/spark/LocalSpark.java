package dev.terrace.objects.spark;

import java.nio.file.Path;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/// One Spark session, in this process, for all tests that want one: it takes longer to start than
/// most tests to run. It ends with the process.
final class LocalSpark implements ParameterResolver {
    private static final class Holder {
        // With four failures allowed, as on a cluster.
        static final SparkSession SESSION =
                SparkSession.builder()
                        .master("local[2,4]")
                        .appName("terrace-objects-spark")
                        .config("spark.ui.enabled", false)
                        .config("spark.sql.shuffle.partitions", 2)
                        .config("spark.driver.host", "localhost")
                        .config("spark.driver.bindAddress", "127.0.0.1")
                        .config("spark.speculation.interval", "20ms")
                        .config("spark.hadoop.fs.remote.impl", RemoteFileSystem.class.getName())
                        .config("spark.hadoop.fs.remote.terrace.commit", "rename")
                        .config(
                                "spark.sql.warehouse.dir",
                                Path.of("target", "warehouse").toUri().toString())
                        .getOrCreate();
    }

    @Override
    public boolean supportsParameter(ParameterContext parameter, ExtensionContext extension) {
        Class<?> type = parameter.getParameter().getType();
        return type == SparkSession.class || type == JavaSparkContext.class;
    }

    @Override
    public Object resolveParameter(ParameterContext parameter, ExtensionContext extension) {
        SparkSession session = Holder.SESSION;
        return parameter.getParameter().getType() == SparkSession.class
                ? session
                : JavaSparkContext.fromSparkContext(session.sparkContext());
    }
}
