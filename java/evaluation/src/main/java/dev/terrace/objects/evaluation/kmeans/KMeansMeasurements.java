package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.run.Jvm;
import java.util.Comparator;
import java.util.List;

/// The measurements of k-means.
///
/// @param rows how many points
/// @param iterations of the algorithm
/// @param pmemBytes that the pools take
/// @param tableBytes that the table takes
/// @param files how long the files are
/// @param runs of all sources, for each collector
/// @param three the three numbers
record KMeansMeasurements(
        int rows,
        int iterations,
        long pmemBytes,
        long tableBytes,
        FileBytes files,
        List<SourceRuns> runs,
        ThreeNumbers three) {
    /// How long files are, in bytes.
    record FileBytes(long text, long binary, long parquet) {}

    /// The measurements with one garbage collector.
    ByCollector with(Jvm.Collector collector) {
        return new ByCollector(
                collector,
                runs.stream().filter(some -> some.jvm().collector() == collector).toList());
    }

    /// Whether there are runs with it.
    boolean has(Jvm.Collector collector) {
        return runs.stream().anyMatch(some -> some.jvm().collector() == collector);
    }

    /// Runs with one collector.
    ///
    /// @param runs of each source on the larger heap, and at last of ALL-PMEM on a quarter of it
    record ByCollector(Jvm.Collector collector, List<SourceRuns> runs) {
        /// The paper's baseline.
        SourceRuns text() {
            return runs.getFirst();
        }

        /// ALL-PMEM on the same heap.
        SourceRuns pmem() {
            return runs.get(runs.size() - 2);
        }

        /// ALL-PMEM on a quarter of it.
        SourceRuns quarter() {
            return runs.getLast();
        }

        /// The fastest of those that are cached.
        SourceRuns best() {
            return runs.stream()
                    .filter(some -> Source.CACHED.contains(some.source()) && some.isDone())
                    .min(Comparator.comparingDouble(some -> some.total().median()))
                    .orElseThrow();
        }
    }
}
