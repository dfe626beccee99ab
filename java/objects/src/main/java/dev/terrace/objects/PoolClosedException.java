package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// The pool has been closed.
public final class PoolClosedException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public PoolClosedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /// With what happened.
    public PoolClosedException(String message) {
        this(message, null);
    }
}
