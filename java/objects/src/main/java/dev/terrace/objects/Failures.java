package dev.terrace.objects;

import dev.terrace.objects.internal.store.StoreFailure;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// The boundary between the store's failures and those that programs see.
///
/// Invariant: each method that a program may call tells failures as a [TerraceException]; below,
/// all failures are the store's. A program's own work that runs within a consistent read has the
/// two failures that the store treats in a way of its own turned back, so that it knows them.
final class Failures {
    private Failures() {}

    /// A failure of the store as programs see it: it says the same, and happened at the same place.
    static TerraceException told(StoreFailure failure) {
        if (isTurnedBack(failure)) {
            return (TerraceException) failure.getCause();
        }
        String message = failure.getMessage();
        Throwable cause = inWords(failure.getCause());
        TerraceException told =
                switch (failure) {
                    case StoreFailure.Busy _ -> new PoolBusyException(message);
                    case StoreFailure.Closed _ -> new PoolClosedException(message, cause);
                    case StoreFailure.Damaged _ -> new PoolDamagedException(message, cause);
                    case StoreFailure.UnknownFormat _ -> new PoolFormatException(message, cause);
                    case StoreFailure.Full _ -> new PoolFullException(message, cause);
                    case StoreFailure.Aborted _ -> new TransactionAbortedException(message, cause);
                    case StoreFailure.Mismatch _ -> new SchemaMismatchException(message, cause);
                    case StoreFailure.ReadOnly _ -> new PoolReadOnlyException(message, cause);
                    case StoreFailure.Stale _ -> new StaleReferenceException(message, cause);
                    case StoreFailure.Unavailable _ -> new TierUnavailableException(message, cause);
                };
        told.setStackTrace(failure.getStackTrace());
        for (Throwable suppressed : failure.getSuppressed()) {
            told.addSuppressed(inWords(suppressed));
        }
        return told;
    }

    private static @Nullable Throwable inWords(@Nullable Throwable cause) {
        return cause instanceof StoreFailure failure ? told(failure) : cause;
    }

    private static boolean isTurnedBack(StoreFailure failure) {
        return switch (failure) {
            case StoreFailure.Damaged _ -> failure.getCause() instanceof PoolDamagedException;
            case StoreFailure.Full _ -> failure.getCause() instanceof PoolFullException;
            case StoreFailure.Unavailable _ ->
                    failure.getCause() instanceof TierUnavailableException;
            default -> false;
        };
    }

    /// Runs what may fail as the store does, and tells that in the words of programs.
    static <T extends @Nullable Object> T telling(Supplier<T> work) {
        try {
            return work.get();
        } catch (StoreFailure failure) {
            throw told(failure);
        }
    }

    /// Runs what a program does, or has others do, for the store.
    static <T extends @Nullable Object> T turningBack(Supplier<T> work) {
        try {
            return work.get();
        } catch (TerraceException failure) {
            throw turnedBack(failure);
        }
    }

    /// What the store is to see of a failure that was told already.
    static RuntimeException turnedBack(TerraceException failure) {
        String message = String.valueOf(failure.getMessage());
        return switch (failure) {
            case PoolDamagedException _ -> new StoreFailure.Damaged(message, failure);
            case PoolFullException _ -> new StoreFailure.Full(message, failure);
            case TierUnavailableException _ -> new StoreFailure.Unavailable(message, failure);
            default -> failure;
        };
    }
}
