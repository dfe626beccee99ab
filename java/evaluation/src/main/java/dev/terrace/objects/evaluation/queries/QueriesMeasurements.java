package dev.terrace.objects.evaluation.queries;

import dev.terrace.objects.evaluation.run.Spread;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/// The measurements of queries.
///
/// @param scale of the tables
/// @param warmUps passes over all queries in a process, before those that count
/// @param runs passes that count: of their times each process gives the median
/// @param bytes of files
/// @param cachedBytes what Spark's cache takes of the heap
/// @param residentBytes the most that was resident of each process, in each round
/// @param seconds of each query, in each round
record QueriesMeasurements(
        double scale,
        int warmUps,
        int runs,
        Map<Storage, Long> bytes,
        long cachedBytes,
        Map<Storage, Spread> residentBytes,
        Map<Storage, Map<Query, Spread>> seconds) {

    /// Seconds of a query.
    Spread of(Storage storage, Query query) {
        return seconds.get(storage).get(query);
    }

    /// The time of a terrace table to that of another, in each round.
    Spread ratio(Storage other, Query query) {
        return of(Storage.TERRACE, query).over(of(other, query));
    }

    /// The geometric mean of the ratios of all queries, in each round.
    Spread mean(Storage other) {
        List<Spread> ratios =
                Arrays.stream(Query.values()).map(query -> ratio(other, query)).toList();
        return Spread.geometricMean(ratios);
    }

    /// The ratio of the query that is worst, in each round.
    Spread worst(Storage other) {
        return Arrays.stream(Query.values())
                .map(query -> ratio(other, query))
                .reduce(Spread::larger)
                .orElseThrow();
    }

    /// The query that is worst in the middle of its rounds.
    Query worstQuery(Storage other) {
        return Arrays.stream(Query.values())
                .max(Comparator.comparingDouble(query -> ratio(other, query).median()))
                .orElseThrow();
    }
}
