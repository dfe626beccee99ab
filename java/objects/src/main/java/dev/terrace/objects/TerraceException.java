package dev.terrace.objects;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// A failure of a pool. The message names the cause and, if there is one, the remedy.
public abstract sealed class TerraceException extends RuntimeException
        permits PoolFullException,
                PoolBusyException,
                PoolDamagedException,
                PoolClosedException,
                PoolLockedException,
                PoolReadOnlyException,
                TransactionAbortedException,
                PoolFormatException,
                SchemaMismatchException,
                TierUnavailableException,
                StaleReferenceException {
    @Serial private static final long serialVersionUID = 1L;

    TerraceException(String message, @Nullable Throwable cause) {
        super(message, cause);
    }
}
