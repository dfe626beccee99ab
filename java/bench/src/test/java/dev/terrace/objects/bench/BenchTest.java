package dev.terrace.objects.bench;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Collection;
import org.junit.jupiter.api.Test;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.VerboseMode;

class BenchTest {
    private static final int BENCHMARKS =
            2 * 10 + 3 * 8 + 2 * 6 + 2 + 4 * 2 + 3 + 2 * 2 * 3 + 3 * 3 + 2 * 9;

    /// Each does its work once; how long that takes is not looked at.
    @Test
    void allBenchmarksRun() throws RunnerException {
        Collection<RunResult> results =
                new Runner(
                                new OptionsBuilder()
                                        .include("dev.terrace.objects.bench")
                                        .param("objects", "1000")
                                        .param("lies", "memory")
                                        .mode(Mode.SingleShotTime)
                                        .forks(0)
                                        .warmupIterations(0)
                                        .measurementIterations(1)
                                        .shouldFailOnError(true)
                                        .verbosity(VerboseMode.SILENT)
                                        .build())
                        .run();
        assertEquals(BENCHMARKS, results.size());
        assertTrue(
                results.stream()
                        .allMatch(result -> result.getPrimaryResult().getStatistics().getN() == 1));
    }
}
