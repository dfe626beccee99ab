package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// A transaction within this one has failed, so that nothing of this one lasts either, though the
/// failure was caught.
public final class TransactionAbortedException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public TransactionAbortedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
