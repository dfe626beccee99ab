package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// The files are not a pool, or a pool of a version that this library does not know.
public final class PoolFormatException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public PoolFormatException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /// With what happened.
    public PoolFormatException(String message) {
        this(message, null);
    }
}
