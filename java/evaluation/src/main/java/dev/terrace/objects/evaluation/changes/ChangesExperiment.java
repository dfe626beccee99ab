package dev.terrace.objects.evaluation.changes;

import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Repeated;
import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.run.HeapExhaustedException;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Scratch;
import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import java.io.IOException;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.Function;

/// Statements that delete and update a hundredth of a table's rows, each with the next scan.
public final class ChangesExperiment implements Experiment {
    private static final int WARM_UPS = 2;
    private static final int RUNS = 3;
    private static final Jvm JVM = Jvm.of(Jvm.Collector.G1).with(LocalSpark.FLAGS);

    @Override
    public Section run(Settings settings) throws IOException, InterruptedException {
        int warmUps = settings.isQuick() ? 0 : WARM_UPS;
        int runs = settings.isQuick() ? 1 : RUNS;
        try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
            ChangesJob job =
                    new ChangesJob(
                            settings.rows(),
                            scratch.pmem().resolve("table"),
                            scratch.disk(),
                            warmUps,
                            runs);
            Repeated<ChangesJob.Result> repeated =
                    new Repeated<>("statements and scans", () -> once(settings, job));
            Repeated.all(settings, "changes", List.of(repeated));
            List<ChangesJob.Result> results = repeated.results();
            requireSame(results);
            return ChangesSection.of(
                    settings,
                    new ChangesMeasurements(
                            settings.rows(),
                            warmUps,
                            runs,
                            new Spread(
                                    results.stream()
                                            .map(ChangesJob.Result::firstScanSeconds)
                                            .toList()),
                            spreads(results, ChangesJob.Result::changeSeconds),
                            spreads(results, ChangesJob.Result::scanSeconds),
                            results.getLast().bytes()));
        }
    }

    private static ChangesJob.Result once(Settings settings, ChangesJob job)
            throws IOException, InterruptedException, HeapExhaustedException {
        return settings.processes().run(JVM, job, ChangesJob.Result.class).result();
    }

    /// Looks whether the scans of each round have found the same.
    private static void requireSame(List<ChangesJob.Result> results) {
        ChangesJob.Result first = results.getFirst();
        for (ChangesJob.Result other : results) {
            for (int i = 0; i < first.scans().size(); i++) {
                if (!other.scans().get(i).isAbout(first.scans().get(i))) {
                    throw new IllegalStateException("scan " + i + " found other rows than before");
                }
            }
        }
    }

    private static Map<Change, Spread> spreads(
            List<ChangesJob.Result> results,
            Function<ChangesJob.Result, Map<Change, Double>> seconds) {
        Map<Change, Spread> spreads = new EnumMap<>(Change.class);
        for (Change change : Change.values()) {
            spreads.put(
                    change,
                    new Spread(
                            results.stream()
                                    .map(result -> seconds.apply(result).get(change))
                                    .toList()));
        }
        return spreads;
    }
}
