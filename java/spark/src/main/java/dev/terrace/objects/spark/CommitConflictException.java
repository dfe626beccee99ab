package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.Serial;

/// Somebody else has changed a directory of pools, or a table, in a way that does not go with what
/// was to be committed. Nothing has changed by this writer: try again.
public final class CommitConflictException extends IOException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened.
    public CommitConflictException(String message) {
        super(message);
    }
}
