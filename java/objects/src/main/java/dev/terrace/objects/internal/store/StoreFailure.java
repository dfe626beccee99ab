package dev.terrace.objects.internal.store;

import java.io.Serial;
import org.jspecify.annotations.Nullable;

/// What can go wrong in the store. The message names the thing and, where there is one, the remedy.
///
/// The store knows nothing of its users, so it has failures of its own. The layer that programs
/// call tells them in its own words, at each method that a program may call.
public abstract sealed class StoreFailure extends RuntimeException {
    @Serial private static final long serialVersionUID = 1L;

    StoreFailure(String message, @Nullable Throwable cause) {
        super(message, cause);
    }

    /// What was to be read was never of one commit, or a transaction is waited for too long.
    public static final class Busy extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened.
        public Busy(String message) {
            super(message, null);
        }
    }

    /// The store has been closed.
    public static final class Closed extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened.
        public Closed(String message) {
            super(message, null);
        }
    }

    /// Files are not what the store has written, or cannot be read or written any more.
    public static final class Damaged extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened, and why.
        public Damaged(String message, @Nullable Throwable cause) {
            super(message, cause);
        }

        /// With what happened.
        public Damaged(String message) {
            this(message, null);
        }
    }

    /// Files are no store's, or of a version that this library does not know.
    public static final class UnknownFormat extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened, and why.
        public UnknownFormat(String message, @Nullable Throwable cause) {
            super(message, cause);
        }

        /// With what happened.
        public UnknownFormat(String message) {
            this(message, null);
        }
    }

    /// There is no room for what was to be stored. Nothing has changed.
    public static final class Full extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened, and why.
        public Full(String message, @Nullable Throwable cause) {
            super(message, cause);
        }

        /// With what happened.
        public Full(String message) {
            this(message, null);
        }
    }

    /// A transaction within this one has failed, so that nothing of this one lasts either.
    public static final class Aborted extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened, and why.
        public Aborted(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }

    /// What a reference leads to is of another type than was asked for.
    public static final class Mismatch extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened.
        public Mismatch(String message) {
            super(message, null);
        }
    }

    /// The store was opened read-only, or this thread must not write now.
    public static final class ReadOnly extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened.
        public ReadOnly(String message) {
            super(message, null);
        }
    }

    /// What was to be changed has been deleted.
    public static final class Stale extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened.
        public Stale(String message) {
            super(message, null);
        }
    }

    /// A tier cannot be reached at the moment. Nothing has changed.
    public static final class Unavailable extends StoreFailure {
        @Serial private static final long serialVersionUID = 1L;

        /// With what happened, and why.
        public Unavailable(String message, @Nullable Throwable cause) {
            super(message, cause);
        }
    }
}
