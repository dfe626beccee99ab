package dev.terrace.objects.placement;

import java.util.List;

/// The consequences of keeping a field on one of a problem's devices.
///
/// @param accessNanos what all accesses cost: F · C
/// @param failureNanos what failures of the device cost: F · R · P or X · R · P
/// @param bytes what the field takes of each device, in the order of the problem's devices, for all
///   objects: X · B. A value on a disk takes of persistent memory too, for the slot that leads to
///   it
/// @param refusal why the field may not be there; empty if it may
public record Choice(double accessNanos, double failureNanos, List<Long> bytes, String refusal) {
    /// Checks the numbers.
    public Choice {
        bytes = List.copyOf(bytes);
        boolean isCost =
                accessNanos >= 0
                        && failureNanos >= 0
                        && Double.isFinite(accessNanos + failureNanos);
        if (!isCost || bytes.stream().anyMatch(each -> each < 0)) {
            throw new IllegalArgumentException(
                    "a choice costs "
                            + accessNanos
                            + " + "
                            + failureNanos
                            + " ns and takes "
                            + bytes
                            + " bytes: none is negative");
        }
    }

    /// Both costs together, in nanoseconds.
    public double nanos() {
        return accessNanos + failureNanos;
    }

    /// Whether the field may be there.
    public boolean isAllowed() {
        return refusal.isEmpty();
    }
}
