package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Job;
import java.lang.management.ManagementFactory;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/// Has people ready, and searches them from the start, without anything that would warm up: with
/// one constraint, with two, and so on, in turn.
///
/// @param graph the file that the heap is loaded from
/// @param queries asked again and again
/// @param counts of searches, in ascending order, after each of which the time is taken
record CurveJob(
        Layout layout, Path graph, Path pmem, Path disk, List<Query> queries, List<Integer> counts)
        implements Job<CurveJob.Result> {
    private static final double MILLIS = 1e3;
    private static final double NANOS = 1e9;

    /// The result of the job.
    ///
    /// @param seconds since Java's start, when so many searches were done as each count says
    /// @param found a sum over all answers
    record Result(List<Double> seconds, long found) {}

    @Override
    public Result run() throws Exception {
        long uptimeMillis = ManagementFactory.getRuntimeMXBean().getUptime();
        long start = System.nanoTime();
        List<Double> seconds = new ArrayList<>();
        long found = 0;
        try (People<?> people = layout.open(graph, pmem, disk)) {
            List<List<SearchJob.Constrained>> all =
                    IntStream.rangeClosed(1, Category.SEARCHED)
                            .mapToObj(constraints -> SearchJob.constrained(queries, constraints))
                            .toList();
            int done = 0;
            for (int count : counts) {
                found = found * 31 + search(people, all, done, count);
                done = count;
                seconds.add(uptimeMillis / MILLIS + (System.nanoTime() - start) / NANOS);
            }
        }
        return new Result(seconds, found);
    }

    private static long search(
            People<?> people, List<List<SearchJob.Constrained>> all, int from, int to) {
        long sum = 0;
        for (int i = from; i < to; i++) {
            List<SearchJob.Constrained> some = all.get(i % all.size());
            sum += SearchJob.search(people, some.get(i / all.size() % some.size()));
        }
        return sum;
    }
}
