package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Spread;
import java.util.List;
import java.util.stream.IntStream;

/// How long processes took until so many searches were done, with people on the same layout.
///
/// @param counts of searches
/// @param rounds of each the seconds from the start of the process, one for each count
record CurveRuns(Layout layout, List<Integer> counts, List<List<Double>> rounds) {
    /// Copies the lists.
    CurveRuns {
        counts = List.copyOf(counts);
        rounds = rounds.stream().map(List::copyOf).toList();
    }

    /// Seconds until as many searches were done as each count says, in all rounds.
    List<Spread> seconds() {
        return IntStream.range(0, counts.size())
                .mapToObj(i -> new Spread(rounds.stream().map(round -> round.get(i)).toList()))
                .toList();
    }

    /// For how many searches this layout is the faster one, by the medians.
    BreakEven against(CurveRuns other) {
        return BreakEven.of(counts, medians(), other.medians());
    }

    /// The same in each round.
    List<BreakEven> roundsAgainst(CurveRuns other) {
        return IntStream.range(0, rounds.size())
                .mapToObj(i -> BreakEven.of(counts, rounds.get(i), other.rounds.get(i)))
                .toList();
    }

    private List<Double> medians() {
        return seconds().stream().map(Spread::median).toList();
    }
}
