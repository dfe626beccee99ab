package dev.terrace.objects.placement;

import java.util.Arrays;
import java.util.List;
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
        double[] over = over(problem, assignment);
        Move move = best(problem, assignment, over);
        while (move != null) {
            over = moved(problem, over, assignment, move.field, move.device);
            assignment[move.field] = move.device;
            move = best(problem, assignment, over);
        }
        return assignment;
    }

    /// @param worth what a move does for what it costs
    private record Move(int field, int device, double worth) {}

    private static @Nullable Move best(PlacementProblem problem, int[] assignment, double[] over) {
        double missing = missing(over);
        Move best = null;
        for (int field = 0; field < assignment.length; field++) {
            double cost = problem.choice(field, assignment[field]).nanos();
            for (int device : problem.allowed(field)) {
                if (device == assignment[field]) {
                    continue;
                }
                double more = problem.choice(field, device).nanos() - cost;
                double less = missing - missing(moved(problem, over, assignment, field, device));
                // Where all fits, only what is cheaper and still fits counts.
                double worth =
                        missing > 0
                                ? less > 0 ? less / (1 + Math.max(0, more)) : 0
                                : less == 0 && more < 0 ? -more : 0;
                if (worth > 0 && (best == null || worth > best.worth)) {
                    best = new Move(field, device, worth);
                }
            }
        }
        return best;
    }

    /// By how many bytes an assignment takes more of each device than it has; negative where there
    /// is room left.
    private static double[] over(PlacementProblem problem, int[] assignment) {
        double[] over = new double[problem.devices().size()];
        for (int on = 0; on < over.length; on++) {
            over[on] = problem.reservedBytes().get(on) - problem.devices().get(on).capacityBytes();
            for (int field = 0; field < assignment.length; field++) {
                over[on] += problem.choice(field, assignment[field]).bytes().get(on);
            }
        }
        return over;
    }

    /// The same when a field is moved to a device.
    private static double[] moved(
            PlacementProblem problem, double[] over, int[] assignment, int field, int device) {
        List<Long> before = problem.choice(field, assignment[field]).bytes();
        List<Long> after = problem.choice(field, device).bytes();
        double[] moved = new double[over.length];
        Arrays.setAll(moved, on -> over[on] + (after.get(on) - before.get(on)));
        return moved;
    }

    private static double missing(double[] over) {
        return Arrays.stream(over).filter(bytes -> bytes > 0).sum();
    }
}
