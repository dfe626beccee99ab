package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// A cluster of several processes.
class ClusterTest {
    private static final String ALL_ROWS = "[4000,4000,7998000]";

    @TempDir private Path dir;

    @Test
    void tasksThatAreTriedTwiceAndExecutorsThatAreKilledLeaveNoDuplicate() throws Exception {
        try (StandaloneCluster cluster = new StandaloneCluster(dir)) {
            List<String> said = cluster.run(ClusterDriver.class, cluster.master(), dir);
            assertEquals(
                    List.of(
                            "remote 4000 copies 4",
                            "objects true parts 4",
                            "speculated " + ALL_ROWS + " parts 4",
                            "updated " + ALL_ROWS + " changed 2000 deletions 1",
                            "killed " + ALL_ROWS + " parts 4"),
                    said.stream()
                            .filter(line ->
                                    line.matches("(speculated|updated|killed|objects|remote) .*"))
                            .toList(),
                    () -> String.join("\n", said));
        }
    }
}
