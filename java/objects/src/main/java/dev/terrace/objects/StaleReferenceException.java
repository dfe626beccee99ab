package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// The object has been deleted.
public final class StaleReferenceException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public StaleReferenceException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /// With what happened.
    public StaleReferenceException(String message) {
        this(message, null);
    }
}
