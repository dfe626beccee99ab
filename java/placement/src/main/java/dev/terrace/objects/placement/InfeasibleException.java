package dev.terrace.objects.placement;

import java.io.Serial;
import java.util.Map;

/// There is no placement: either no device is left that a field may lie on, or all together do not
/// fit, or a search has not found in time how they do.
public final class InfeasibleException extends RuntimeException {
    @Serial private static final long serialVersionUID = 1;

    private final transient Map<String, Long> missingBytes;

    InfeasibleException(String message, Map<String, Long> missingBytes) {
        super(message);
        this.missingBytes = Map.copyOf(missingBytes);
    }

    /// By the devices' names, how many bytes too few they have, where the sum of these is the
    /// least; empty if that is not what is wrong.
    public Map<String, Long> missingBytes() {
        return missingBytes;
    }
}
