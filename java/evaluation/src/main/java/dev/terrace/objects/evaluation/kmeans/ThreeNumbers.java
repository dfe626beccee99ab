package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.run.Memory;
import dev.terrace.objects.evaluation.run.Spread;
import java.util.Comparator;
import java.util.List;
import java.util.function.Function;
import org.jspecify.annotations.Nullable;

/// k-means as three numbers: the first run with the import of the text, a later process in total,
/// and an iteration once code is compiled and points are cached.
///
/// @param iterations of the algorithm
/// @param poolImport seconds to bring the text into pools, in each round
/// @param binaryImport seconds to make the binary files of the text, in each round
/// @param poolBytes that the pools take
/// @param runs of cached baselines, and at last of ALL-PMEM on a quarter of their heap
record ThreeNumbers(
        int iterations,
        Spread poolImport,
        Spread binaryImport,
        long poolBytes,
        List<SourceRuns> runs) {
    /// Copies the list.
    ThreeNumbers {
        runs = List.copyOf(runs);
    }

    /// ALL-PMEM on a quarter of the heap.
    SourceRuns pmem() {
        return runs.getLast();
    }

    /// Of the baselines the one with the least of some number.
    ///
    /// @throws java.util.NoSuchElementException if the heap was too small for all
    SourceRuns best(Function<SourceRuns, Spread> number) {
        return runs.subList(0, runs.size() - 1).stream()
                .filter(SourceRuns::isDone)
                .min(Comparator.comparingDouble(some -> number.apply(some).median()))
                .orElseThrow();
    }

    /// Seconds of a first run: the import, if there is one, and then the algorithm.
    Spread first(SourceRuns some) {
        return switch (some.source()) {
            case ALL_PMEM -> poolImport.plus(some.total());
            case BINARY_CACHED -> binaryImport.plus(some.total());
            default -> some.total();
        };
    }

    /// Seconds of an iteration: the median of each run without its first.
    static Spread laterIteration(SourceRuns some) {
        return some.of(KMeansJob.Result::laterIteration);
    }

    /// Resident bytes with the pools. These are counted whole, beside what was mapped of them: no
    /// less than what there is.
    Spread resident(SourceRuns some) {
        long pools = some.source() == Source.ALL_PMEM ? poolBytes : 0;
        return some.memory(Memory::residentPeak).plus(some.memory(_ -> pools));
    }

    /// Why a baseline cannot be compared with ALL-PMEM: it takes less memory; null if it can.
    @Nullable String doubt(SourceRuns baseline) {
        return resident(baseline).median() >= resident(pmem()).median()
                ? null
                : baseline.source().title + " takes less memory than ALL-PMEM with its pools";
    }
}
