package dev.terrace.objects;

import java.io.Serial;

/// Another process commits so often that what was to be read was never of one commit, for as long as
/// [PoolOptions#patience(java.time.Duration)] says.
public final class PoolBusyException extends TerraceException {
    @Serial
    private static final long serialVersionUID = 1L;

    /// With what happened.
    public PoolBusyException(String message) {
        super(message, null);
    }
}
