package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// The pool was opened read-only, or is sealed, or only the thread that writes may do this.
public final class PoolReadOnlyException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public PoolReadOnlyException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /// With what happened.
    public PoolReadOnlyException(String message) {
        this(message, null);
    }
}
