package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// A class differs from what the pool has stored of it in a way that is no permitted evolution.
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
