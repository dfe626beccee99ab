package dev.terrace.objects.placement;

import dev.terrace.objects.StorageTier;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;

/// A rule of the user for a field.
///
/// @param durable whether it must lie on a durable device
/// @param allowed the only tiers that it may lie on
/// @param mayBeLost whether it may lie on a device that loses it, though nothing computes it again
/// @param recomputeNanos by tier, how long it takes to have a value again that was lost with its
///   device: R. Instead of what the profile measured
public record FieldRule(
        boolean durable,
        Set<StorageTier> allowed,
        boolean mayBeLost,
        Map<StorageTier, Double> recomputeNanos) {
    /// Nothing is said.
    static final FieldRule NONE =
            new FieldRule(false, EnumSet.allOf(StorageTier.class), false, Map.of());

    /// Checks the numbers.
    public FieldRule {
        allowed = Set.copyOf(allowed);
        recomputeNanos = Map.copyOf(recomputeNanos);
        if (durable && mayBeLost) {
            throw new IllegalArgumentException(
                    "a field that must be durable may not be lost: remove one of the two rules");
        }
        recomputeNanos.forEach((tier, nanos) -> {
            if (!(nanos >= 0) || nanos.isInfinite()) {
                throw new IllegalArgumentException(
                        "a recomputation after a failure of "
                                + tier
                                + " takes "
                                + nanos
                                + " ns: that is not negative, and has an end");
            }
        });
    }
}
