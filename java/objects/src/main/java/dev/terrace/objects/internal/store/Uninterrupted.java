package dev.terrace.objects.internal.store;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import org.jspecify.annotations.Nullable;

/// Input and output of threads that may be interrupted: an interrupt closes the channel that the
/// thread is using, and must not make the operation fail.
final class Uninterrupted {
    private Uninterrupted() {}

    /// An operation, which opens its channels each time.
    interface Work<T extends @Nullable Object> {
        T run() throws IOException;
    }

    /// Runs the operation, again if an interrupt has ended it, and leaves the thread interrupted.
    static <T extends @Nullable Object> T run(Work<T> work) throws IOException {
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try {
                    return work.run();
                } catch (ClosedByInterruptException | InterruptedIOException e) {
                    // Timeouts throw the same exception.
                    if (!Thread.interrupted()) {
                        throw e;
                    }
                    interrupted = true;
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }
}
