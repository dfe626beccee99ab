package dev.terrace.objects.stress;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/// Runs all tests for a moment, and the planted mistakes.
class StressTest {
    private static final Path REPORT = Path.of("target", "stress").toAbsolutePath();
    private static final Pattern RESULT =
            Pattern.compile("\\[([A-Z]+)] " + Stress.class.getPackageName() + "\\.(\\S+)");
    private static final int TESTS = 20;
    private static final int PLANTED = 3;

    /// What jcstress says of each test: after its heading of all results, as while it runs only
    /// some are named.
    private static Map<String, String> results(String output) {
        Map<String, String> results = new TreeMap<>();
        Matcher found =
                RESULT.matcher(output.substring(Math.max(0, output.indexOf("RUN RESULTS"))));
        while (found.find()) {
            results.put(found.group(2), found.group(1));
        }
        return results;
    }

    @Test
    void onlyWhatMayBeSeenIsSeenAndPlantedMistakesAreFound()
            throws IOException, InterruptedException {
        Files.createDirectories(REPORT);
        Path output = REPORT.resolve("output.txt");
        Process process =
                new ProcessBuilder(
                                List.of(
                                        Path.of(System.getProperty("java.home"), "bin", "java")
                                                .toString(),
                                        "--enable-native-access=ALL-UNNAMED",
                                        "-cp",
                                        System.getProperty("java.class.path"),
                                        Stress.class.getName(),
                                        Stress.ALL,
                                        "quick",
                                        REPORT.toString(),
                                        "-v"))
                        .directory(REPORT.toFile())
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        try {
            assertTrue(process.waitFor(10, TimeUnit.MINUTES), "it does not end: see " + output);
        } finally {
            process.destroyForcibly();
        }
        Map<String, String> results = results(Files.readString(output));
        assertEquals(TESTS + PLANTED, results.size(), "see " + output);
        results.forEach((test, result) ->
                assertEquals(
                        test.startsWith("PlantedTests.") ? "FAILED" : "OK",
                        result,
                        test + ": see " + output));
        assertTrue(process.exitValue() != 0, "the planted mistakes fail a run that is not watched");
    }
}
