package dev.terrace.objects;

import java.io.Serial;

/// For as long as [PoolOptions#patience(java.time.Duration)] says, another process has committed so
/// often that what was to be read was never of one commit; or a transaction of another thread,
/// which this one waits for, has waited and done nothing else: perhaps for this one.
public final class PoolBusyException extends TerraceException {
    @Serial private static final long serialVersionUID = 1L;

    /// With what happened.
    public PoolBusyException(String message) {
        super(message, null);
    }
}
