package dev.terrace.objects.internal.store;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.nio.channels.ClosedByInterruptException;
import org.jspecify.annotations.Nullable;

/// Input and output of threads that somebody may interrupt: an interrupt closes the channel that
/// such a thread is using, and must not fail what it is doing.
final class Uninterrupted {
    private Uninterrupted() {}

    /// What is done. It opens what it needs each time.
    interface Work<T extends @Nullable Object> {
        T run() throws IOException;
    }

    /// Does it, again if an interrupt has ended it, and leaves the thread interrupted then.
    static <T extends @Nullable Object> T run(Work<T> work) throws IOException {
        boolean interrupted = Thread.interrupted();
        try {
            while (true) {
                try {
                    return work.run();
                } catch (ClosedByInterruptException | InterruptedIOException e) {
                    // Others time out with the same exception.
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
