package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.run.GcPauses;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Memory;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Spread;
import java.util.Comparator;
import java.util.List;
import java.util.function.ToDoubleFunction;

/// Runs from the same source on the same heap.
///
/// @param outcomes none if the heap was too small
record SourceRuns(Source source, Jvm jvm, List<Outcome<KMeansJob.Result>> outcomes) {
    /// Whether the heap was large enough.
    boolean isDone() {
        return !outcomes.isEmpty();
    }

    /// Something of each run.
    Spread of(ToDoubleFunction<KMeansJob.Result> what) {
        return Spread.of(
                outcomes.stream()
                        .mapToDouble(outcome -> what.applyAsDouble(outcome.result()))
                        .toArray());
    }

    /// Something of each run's memory.
    Spread memory(ToDoubleFunction<Memory> what) {
        return Spread.of(
                outcomes.stream()
                        .mapToDouble(outcome -> what.applyAsDouble(outcome.memory()))
                        .toArray());
    }

    /// Seconds of all steps.
    Spread total() {
        return of(KMeansJob.Result::seconds);
    }

    /// Seconds of all steps of a kind.
    Spread step(String name) {
        return of(result -> result.seconds(name));
    }

    /// Collections of the run whose pauses are in the middle.
    GcPauses gc() {
        List<GcPauses> sorted =
                outcomes.stream()
                        .map(outcome -> outcome.result().gc())
                        .sorted(Comparator.comparingDouble(GcPauses::seconds))
                        .toList();
        return sorted.get(sorted.size() / 2);
    }
}
