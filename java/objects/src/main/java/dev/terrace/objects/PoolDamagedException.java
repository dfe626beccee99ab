package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// A pool's files are not what the pool has written, or cannot be read or written any more.
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
