package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Phase;
import dev.terrace.objects.evaluation.run.Spread;
import java.util.List;
import java.util.stream.Stream;

/// Runs of the same layout on the same heap.
///
/// @param loads how it was stored; none if it is not
/// @param searches how it was searched; none if its heap was too small
/// @param stored what it takes outside of the processes
record LayoutRuns(
        Layout layout,
        Jvm jvm,
        List<Outcome<Phase>> loads,
        List<Outcome<SearchJob.Result>> searches,
        Stored stored) {
    /// Whether its heap was large enough.
    boolean isDone() {
        return !searches.isEmpty();
    }

    /// Seconds until all people were where the layout has them.
    Spread load() {
        return layout.isStored()
                ? Spread.of(loads.stream().mapToDouble(load -> load.result().seconds()).toArray())
                : open();
    }

    /// Seconds until a new process could search.
    Spread open() {
        return Spread.of(
                searches.stream()
                        .mapToDouble(search -> search.result().open().seconds())
                        .toArray());
    }

    /// Seconds of a search with so many constraints.
    Spread search(int constraints) {
        return Spread.of(
                searches.stream()
                        .mapToDouble(search -> search.result().perSearch().get(constraints - 1))
                        .toArray());
    }

    /// Seconds of a search, the mean over all numbers of constraints.
    Spread search() {
        return Spread.of(
                searches.stream()
                        .mapToDouble(search ->
                                search.result().perSearch().stream()
                                        .mapToDouble(Double::doubleValue)
                                        .average()
                                        .orElseThrow())
                        .toArray());
    }

    /// The share of the searches' time for which the garbage collector stopped the process.
    double gcShare() {
        return gcShare(searches.stream());
    }

    /// The same in each round.
    Spread gcShares() {
        return Spread.of(
                searches.stream().mapToDouble(search -> gcShare(Stream.of(search))).toArray());
    }

    private static double gcShare(Stream<Outcome<SearchJob.Result>> some) {
        double seconds = 0;
        double stopped = 0;
        for (Phase phase : phases(some)) {
            seconds += phase.seconds();
            stopped += phase.gc().seconds();
        }
        return stopped / seconds;
    }

    /// Collections of the whole heap during the searches of a run, on average.
    double fullCollections() {
        return (double)
                        phases(searches.stream()).stream()
                                .mapToLong(phase -> phase.gc().full())
                                .sum()
                / searches.size();
    }

    private static List<Phase> phases(Stream<Outcome<SearchJob.Result>> some) {
        return some.flatMap(search -> search.result().searches().stream()).toList();
    }
}
