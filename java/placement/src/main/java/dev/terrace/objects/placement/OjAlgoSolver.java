package dev.terrace.objects.placement;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Solves problems with ojAlgo, in this process and on one thread: the same problem has the same
/// answer, unless the time limit ends the search. Then the answer is the best that was found, and
/// its bound is that of the program without integers.
public final class OjAlgoSolver implements Solver {
    private static final Duration LIMIT = Duration.ofSeconds(30);

    private final Duration limit;

    /// Searches for half a minute at most.
    public OjAlgoSolver() {
        this(LIMIT);
    }

    /// Searches for so long at most.
    public OjAlgoSolver(Duration limit) {
        if (limit.isNegative() || limit.isZero()) {
            throw new IllegalArgumentException("a time limit of " + limit + ": it is positive");
        }
        this.limit = limit;
    }

    @Override
    public Placement solve(PlacementProblem problem) {
        requireChoices(problem);
        int[] cheapest = Assignments.cheapest(problem);
        if (problem.isFeasible(cheapest)) {
            return placement(problem, cheapest, problem.cost(cheapest));
        }
        IntegerProgram program = new IntegerProgram(problem, limit);
        IntegerProgram.Answer answer = program.leastCost();
        int @Nullable [] found =
                best(problem, answer.assignment(), Assignments.improved(problem, cheapest));
        if (found == null) {
            IntegerProgram.Answer least = program.leastOverflow();
            found = best(problem, least.assignment(), cheapest);
            if (found == null) {
                throw infeasible(problem, least);
            }
        }
        double cost = problem.cost(found);
        return placement(
                problem, found, answer.isProved() ? cost : Math.min(cost, answer.lowerBound()));
    }

    private static Placement placement(
            PlacementProblem problem, int[] assignment, double lowerBound) {
        return new Placement(problem, Arrays.stream(assignment).boxed().toList(), lowerBound);
    }

    /// The cheaper one of those that are feasible, the first improved; null if none is.
    private static int @Nullable [] best(
            PlacementProblem problem, int @Nullable [] found, int[] guessed) {
        int @Nullable [] best = problem.isFeasible(guessed) ? guessed : null;
        if (found != null && problem.isFeasible(found)) {
            int[] improved = Assignments.improved(problem, found);
            return best == null || problem.cost(improved) <= problem.cost(best) ? improved : best;
        }
        return best;
    }

    private static void requireChoices(PlacementProblem problem) {
        List<String> without = new ArrayList<>();
        for (int i = 0; i < problem.fields().size(); i++) {
            if (problem.allowed(i).isEmpty()) {
                List<String> reasons = new ArrayList<>();
                for (int device = 0; device < problem.devices().size(); device++) {
                    reasons.add(
                            problem.devices().get(device).label()
                                    + ": "
                                    + problem.choice(i, device).refusal());
                }
                without.add(
                        "field "
                                + problem.fields().get(i).name()
                                + " may lie nowhere ("
                                + String.join("; ", reasons)
                                + ")");
            }
        }
        if (!without.isEmpty()) {
            throw new InfeasibleException(
                    String.join("\n", without) + ": remove a rule, or add a device", Map.of());
        }
    }

    private InfeasibleException infeasible(PlacementProblem problem, IntegerProgram.Answer least) {
        int[] guessed = Assignments.improved(problem, Assignments.cheapest(problem));
        long[] over = problem.overflow(least.assignment() == null ? guessed : least.assignment());
        Map<String, Long> missing = new LinkedHashMap<>();
        List<String> words = new ArrayList<>();
        for (int device = 0; device < over.length; device++) {
            if (over[device] > 0) {
                Device full = problem.devices().get(device);
                missing.put(full.name(), over[device]);
                words.add(
                        full.label()
                                + " has room for "
                                + full.capacityBytes()
                                + " bytes, "
                                + over[device]
                                + " too few");
            }
        }
        return new InfeasibleException(
                "no placement fits: "
                        + String.join("; ", words)
                        + (least.isProved() ? "" : ", or a little less")
                        + ". Give more room, fewer objects, or fewer rules",
                missing);
    }
}
