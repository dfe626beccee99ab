package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// A class differs from the form that the pool has stored, and the pool cannot adapt to the
/// difference.
public final class SchemaMismatchException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public SchemaMismatchException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /// With what happened.
    public SchemaMismatchException(String message) {
        this(message, null);
    }
}
