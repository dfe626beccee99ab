package dev.terrace.objects.placement;

import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// Assignments that are good, but not proved to be the best.
final class Assignments {
    private Assignments() {}

    /// Each field where it costs least, whether all fit or not; of two that cost the same, the
    /// first.
    static int[] cheapest(PlacementProblem problem) {
        int[] assignment = new int[problem.fields().size()];
        Arrays.setAll(
                assignment,
                field ->
                        problem.allowed(field).stream()
                                .min((left, right) ->
                                        Double.compare(
                                                problem.choice(field, left).nanos(),
                                                problem.choice(field, right).nanos()))
                                .orElseThrow());
        return assignment;
    }

    /// Moves one field at a time: first to where less is missing, until nothing is, then to where
    /// it costs less. Each is the move that does most for what it costs. May end in one that does
    /// not fit.
    static int[] improved(PlacementProblem problem, int[] start) {
        int[] assignment = start.clone();
        Move move = best(problem, assignment);
        while (move != null) {
            assignment[move.field] = move.device;
            move = best(problem, assignment);
        }
        return assignment;
    }

    /// @param worth what a move does for what it costs
    private record Move(int field, int device, double worth) {}

    private static @Nullable Move best(PlacementProblem problem, int[] assignment) {
        double missing = missing(problem, assignment);
        Move best = null;
        for (int field = 0; field < assignment.length; field++) {
            int from = assignment[field];
            double cost = problem.choice(field, from).nanos();
            for (int device : problem.allowed(field)) {
                assignment[field] = device;
                double more = problem.choice(field, device).nanos() - cost;
                double less = missing - missing(problem, assignment);
                // Where all fits, only what is cheaper and still fits counts.
                double worth =
                        missing > 0
                                ? less > 0 ? less / (1 + Math.max(0, more)) : 0
                                : less == 0 && more < 0 ? -more : 0;
                if (device != from && worth > 0 && (best == null || worth > best.worth)) {
                    best = new Move(field, device, worth);
                }
            }
            assignment[field] = from;
        }
        return best;
    }

    private static double missing(PlacementProblem problem, int[] assignment) {
        return Arrays.stream(problem.overflow(assignment)).asDoubleStream().sum();
    }
}
