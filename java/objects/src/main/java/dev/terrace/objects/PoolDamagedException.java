package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// A pool's files no longer hold the bytes that the pool has written, or can no longer be read or
/// written.
public final class PoolDamagedException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public PoolDamagedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /// With what happened.
    public PoolDamagedException(String message) {
        this(message, null);
    }
}
