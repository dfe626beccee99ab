package dev.terrace.objects.placement;

/// Finds the placement that costs least.
@FunctionalInterface
public interface Solver {
    /// Solves a problem.
    ///
    /// @throws InfeasibleException if there is no placement in which each field is where it may be,
    ///   and all fit
    Placement solve(PlacementProblem problem);
}
