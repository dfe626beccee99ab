package dev.terrace.objects.placement;

/// The models of the cost of a device's failure.
public enum CostModel {
    /// As the paper's formula (1) has it: F · C + F · R · P. Each access is charged a
    /// recomputation, as often as its device fails.
    PAPER {
        @Override
        double failureNanos(
                double accesses, double objects, double recomputeNanos, double probability) {
            return accesses * recomputeNanos * probability;
        }
    },
    /// F · C + X · R · P: a failure is charged once for each object, since what was computed again
    /// is there for all later accesses.
    EXPECTED {
        @Override
        double failureNanos(
                double accesses, double objects, double recomputeNanos, double probability) {
            return objects * recomputeNanos * probability;
        }
    };

    /// The cost of a device's failures for a field on it, in nanoseconds.
    abstract double failureNanos(
            double accesses, double objects, double recomputeNanos, double probability);
}
