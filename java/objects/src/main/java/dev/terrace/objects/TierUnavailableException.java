package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// A tier cannot be reached at the moment. Nothing has changed. Values on other tiers can be read
/// and written, and another try may reach the tier.
public final class TierUnavailableException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public TierUnavailableException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
