package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// A tier has no room for a new value. Nothing has changed.
public final class PoolFullException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public PoolFullException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /// With what happened.
    public PoolFullException(String message) {
        this(message, null);
    }
}
