package dev.terrace.objects;

import java.io.Serial;

/// A read or a transaction has waited longer than [PoolOptions#patience(java.time.Duration)].
/// Either another process committed so often that the read never saw a single committed state; or
/// another thread's transaction only waited all the time, perhaps for this thread.
public final class PoolBusyException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened.
    public PoolBusyException(String message) {
        super(message, null);
    }
}
