package dev.terrace.objects.evaluation.reopen;

import dev.terrace.objects.bench.ReopenBench;
import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.kmeans.Loading;
import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Conditions;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.report.Table;
import dev.terrace.objects.evaluation.run.Json;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.VerboseMode;
import org.openjdk.jmh.util.Statistics;

/// How soon a process can read the first of many records that another has left: from a pool,
/// however it was left, and from files that have to be loaded.
public final class ReopenExperiment implements Experiment {
    private static final double MILLIS = 1e3;
    private static final double GOAL_MILLIS = 50;
    private static final int OPENINGS = 5;
    private static final int OPENINGS_BEFORE = 2;

    /// A measurement.
    ///
    /// @param left how the pool was left
    /// @param lies where
    /// @param millis from the call that opens it until a value was read
    private record Opening(String left, String lies, Spread millis) {
        private boolean isClosed() {
            return left.equals("closed");
        }
    }

    private record Measured(int records, List<Opening> openings, Map<String, Spread> loadSeconds) {}

    @Override
    public Section run(Settings settings) throws IOException, InterruptedException {
        settings.progress().accept("reopen: opening pools of " + settings.rows() + " records");
        // Only root can have the system forget a disk's files.
        boolean mayDrop = settings.dropCaches();
        Measured measured =
                new Measured(
                        settings.rows(), openings(settings, mayDrop), Loading.seconds(settings));
        return new Section(
                "reopen",
                "Opening " + String.format(Locale.ROOT, "%,d", measured.records()) + " records",
                List.of(
                        "From the call that opens a pool until the first value is read: a pool that"
                            + " was closed, and one whose process was killed in the middle of its"
                            + " transactions; in memory, and on a disk with nothing of it in memory"
                            + " (`ReopenBench`, in `make bench-objects` too). Beside it how long it"
                            + " takes to load as many rows of 12 numbers from files on the disk;"
                            + " Spark's start is not counted."),
                Conditions.now(settings.command(), mayDrop),
                List.of(table(measured)),
                List.of(),
                claims(measured),
                Json.MAPPER.valueToTree(measured));
    }

    private static List<Opening> openings(Settings settings, boolean mayDrop) throws IOException {
        OptionsBuilder options = new OptionsBuilder();
        options.include(ReopenBench.class.getName())
                .param("objects", Integer.toString(settings.rows()))
                .forks(settings.isQuick() ? 0 : 1)
                .warmupIterations(settings.isQuick() ? 0 : OPENINGS_BEFORE)
                .measurementIterations(settings.isQuick() ? 1 : Math.max(OPENINGS, settings.runs()))
                .shouldFailOnError(true)
                .verbosity(VerboseMode.SILENT);
        options.param(
                "lies", mayDrop ? new String[] {"memory", "cold disk"} : new String[] {"memory"});
        try {
            return openings(new Runner(options.build()).run());
        } catch (RunnerException e) {
            throw new IOException("opening pools failed: " + e.getMessage(), e);
        }
    }

    private static List<Opening> openings(Collection<RunResult> results) {
        List<Opening> openings = new ArrayList<>();
        for (RunResult result : results) {
            Statistics millis = result.getPrimaryResult().getStatistics();
            openings.add(
                    new Opening(
                            result.getParams().getParam("left"),
                            result.getParams().getParam("lies"),
                            Spread.of(values(millis))));
        }
        return openings;
    }

    /// Each opening as a round of its own.
    private static double[] values(Statistics statistics) {
        List<Double> values = new ArrayList<>();
        statistics
                .getRawData()
                .forEachRemaining(entry -> {
                    for (long i = 0; i < entry.getValue(); i++) {
                        values.add(entry.getKey());
                    }
                });
        return values.stream().mapToDouble(Double::doubleValue).toArray();
    }

    private static Table table(Measured measured) {
        List<List<String>> rows = new ArrayList<>();
        measured.openings()
                .forEach(opening ->
                        rows.add(
                                List.of(
                                        "pool, " + opening.left() + ", " + opening.lies(),
                                        opening.millis().toString())));
        measured.loadSeconds()
                .forEach((what, seconds) ->
                        rows.add(List.of(what, seconds.times(MILLIS).toString())));
        return new Table(
                "Milliseconds until there is something to read; medians, least and most in"
                        + " brackets",
                List.of("", "ms"),
                rows);
    }

    private static List<Claim> claims(Measured measured) {
        Spread closed = slowest(measured, true);
        Spread killed = slowest(measured, false);
        double loaded =
                measured.loadSeconds().values().stream()
                                .mapToDouble(Spread::median)
                                .min()
                                .orElseThrow()
                        * MILLIS;
        return List.of(
                Claim.measured("opening a pool that was closed, ms", "–", closed, GOAL_MILLIS),
                Claim.measured("opening a pool whose process was killed, ms", "–", killed, null),
                Claim.measured(
                        "opening a pool, to loading the same from a file",
                        "–",
                        closed.times(1 / loaded),
                        null));
    }

    private static Spread slowest(Measured measured, boolean closed) {
        return measured.openings().stream()
                .filter(opening -> opening.isClosed() == closed)
                .map(Opening::millis)
                .max(Comparator.comparingDouble(Spread::median))
                .orElseThrow();
    }
}
