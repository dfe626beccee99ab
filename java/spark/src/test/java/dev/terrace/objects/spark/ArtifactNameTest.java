package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

/// The artifact names the versions that it works with, because Spark's interfaces for sources of
/// data change with its minor versions, and its classes with those of Scala.
class ArtifactNameTest {
    @Test
    void theArtifactNamesTheMinorVersionsOfSparkAndScala() throws IOException {
        String name =
                "terrace-objects-spark-"
                        + minor(org.apache.spark.package$.MODULE$.SPARK_VERSION())
                        + "_"
                        + minor(scala.util.Properties.versionNumberString());
        assertTrue(
                Files.readString(Path.of("pom.xml"))
                        .contains("\n  <artifactId>" + name + "</artifactId>\n"),
                name);
        assertTrue(
                Files.readString(Path.of("..", "docs", "SPARK.md")).contains("`" + name + "`"),
                name);
    }

    private static String minor(String version) {
        return version.replaceFirst("^(\\d+\\.\\d+)\\..*", "$1");
    }
}
