package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// Has people ready, and searches them with one constraint, with two, and so on.
///
/// @param graph the file that the heap is loaded from
/// @param queries all of which are searched with each number of constraints
/// @param first how many of them are searched before anything is measured, so that code is compiled
/// @param rounds how often all are searched
/// @param isSettled whether the heap is collected after the first searches, so that what was loaded
///   need not be moved to where it stays during the others
record SearchJob(
        Layout layout,
        Path graph,
        Path pmem,
        Path disk,
        List<Query> queries,
        int first,
        int rounds,
        boolean isSettled)
        implements Job<SearchJob.Result> {
    /// The result of the job.
    ///
    /// @param open how long it took until people could be searched
    /// @param warmUp the first searches
    /// @param searches with one constraint, with two, and so on
    /// @param perSearch seconds, of each of these
    /// @param found a sum over all answers of the first searches
    /// @param foundByAll sums over all answers, with one constraint, with two, and so on
    /// @param liveBytes of the heap, with people still there
    record Result(
            Phase open,
            Phase warmUp,
            List<Phase> searches,
            List<Double> perSearch,
            long found,
            List<Long> foundByAll,
            long liveBytes) {}

    @Override
    public Result run() throws Exception {
        Meter meter = new Meter();
        try (People<?> people = meter.phase("open", () -> layout.open(graph, pmem, disk))) {
            long found =
                    meter.phase(
                            "first searches",
                            () -> {
                                long sum = 0;
                                for (int constraints = 1;
                                        constraints <= Category.SEARCHED;
                                        constraints++) {
                                    sum =
                                            sum * 31
                                                    + search(
                                                            people,
                                                            constrained(
                                                                    queries.subList(0, first),
                                                                    constraints));
                                }
                                return sum;
                            });
            if (isSettled) {
                System.gc();
            }
            List<Long> foundByAll = new ArrayList<>();
            List<Double> perSearch = new ArrayList<>();
            for (int constraints = 1; constraints <= Category.SEARCHED; constraints++) {
                List<Constrained> all = constrained(queries, constraints);
                foundByAll.add(
                        meter.phase(
                                constraints + " constraints",
                                () -> {
                                    long sum = 0;
                                    for (int round = 0; round < rounds; round++) {
                                        sum = search(people, all);
                                    }
                                    return sum;
                                }));
                perSearch.add(meter.phases().getLast().seconds() / rounds / all.size());
            }
            List<Phase> phases = meter.phases();
            return new Result(
                    phases.get(0),
                    phases.get(1),
                    phases.subList(2, phases.size()),
                    perSearch,
                    found,
                    foundByAll,
                    live());
        }
    }

    /// A question with some of its constraints.
    record Constrained(int person, People.Feature[] features) {}

    /// Questions with their first constraints.
    static List<Constrained> constrained(List<Query> queries, int constraints) {
        return queries.stream()
                .map(query ->
                        new Constrained(
                                query.person(),
                                query.features().stream()
                                        .limit(constraints)
                                        .map(People.Feature::of)
                                        .toArray(People.Feature[]::new)))
                .toList();
    }

    private static long search(People<?> people, List<Constrained> queries) {
        long sum = 0;
        for (Constrained query : queries) {
            sum += search(people, query);
        }
        return sum;
    }

    /// A number that is another one if others are found.
    static long search(People<?> people, Constrained query) {
        long answer = query.person();
        for (int friend : people.friendsWith(query.person(), query.features())) {
            answer = answer * 31 + friend;
        }
        return answer;
    }

    private static long live() {
        System.gc();
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
