package dev.terrace.objects.placement;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/// Solves problems by branch and bound, in this process and on one thread: the same problem has the
/// same answer, unless the time limit ends the search. Then the answer is the best that was found,
/// and its bound is the lowest of what was left to search.
public final class BranchAndBoundSolver implements Solver {
    private static final Duration LIMIT = Duration.ofSeconds(30);

    /// The share of the time limit for explaining why a problem has no solution: a quick
    /// explanation matters more than the smallest one.
    private static final int EXPLANATION_SHARE = 10;

    /// Parts of a search for an assignment that fits, before one for the cheapest is tried without.
    private static final int FEW = 300;

    private static final int ALL = Integer.MAX_VALUE;

    private final Duration limit;

    /// Searches for half a minute at most.
    public BranchAndBoundSolver() {
        this(LIMIT);
    }

    /// Searches for so long at most.
    public BranchAndBoundSolver(Duration limit) {
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
            return placement(problem, cheapest, true, 0);
        }
        int[] start = Assignments.improved(problem, cheapest);
        PricedProblem overflow = PricedProblem.ofOverflow(problem);
        boolean mayFit = true;
        if (!problem.isFeasible(start)) {
            BranchAndBound.Answer near = closest(overflow, start, FEW);
            start = Objects.requireNonNull(near.assignment());
            mayFit = near.lowerBound() <= 0;
        }
        double bound = problem.cost(cheapest);
        if (mayFit) {
            PricedProblem costs = PricedProblem.ofCosts(problem);
            BranchAndBound.Answer answer = BranchAndBound.search(costs, start, limit, ALL);
            bound += Math.max(0, answer.lowerBound());
            if (answer.assignment() != null) {
                return placement(problem, answer.assignment(), answer.isProved(), bound);
            }
            mayFit = !answer.isProved();
        }
        BranchAndBound.Answer least = closest(overflow, start, ALL);
        int[] closest = Objects.requireNonNull(least.assignment());
        if (problem.isFeasible(closest)) {
            return placement(problem, closest, false, bound);
        }
        throw infeasible(problem, least, mayFit && least.lowerBound() <= 0);
    }

    /// The assignment that comes closest to fitting.
    private BranchAndBound.Answer closest(PricedProblem overflow, int[] start, int parts) {
        return BranchAndBound.search(overflow, start, limit.dividedBy(EXPLANATION_SHARE), parts);
    }

    private static Placement placement(
            PlacementProblem problem, int[] assignment, boolean isBest, double lowerBound) {
        double cost = problem.cost(assignment);
        return new Placement(
                problem,
                Arrays.stream(assignment).boxed().toList(),
                isBest ? cost : Math.min(cost, lowerBound));
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

    /// @param mayFit whether the time was too short to know
    private static InfeasibleException infeasible(
            PlacementProblem problem, BranchAndBound.Answer least, boolean mayFit) {
        long[] over = problem.overflow(Objects.requireNonNull(least.assignment()));
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
                (mayFit ? "no placement was found in time that fits: " : "no placement fits: ")
                        + String.join("; ", words)
                        + (least.isProved() ? "" : ", or a little less")
                        + (mayFit ? ". Give more time, more room" : ". Give more room")
                        + ", fewer objects, or fewer rules",
                missing);
    }
}
