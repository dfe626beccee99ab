package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// A nested transaction has failed. Therefore the outer transaction is rolled back, too, even if
/// the failure was caught.
public final class TransactionAbortedException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened, and why.
    public TransactionAbortedException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
