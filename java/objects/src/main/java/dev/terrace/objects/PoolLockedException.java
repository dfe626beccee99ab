package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// Another process writes to the pool.
public final class PoolLockedException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public PoolLockedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /// With what happened.
    public PoolLockedException(String message) {
        this(message, null);
    }
}
