package dev.terrace.objects.evaluation.run;

import java.io.IOException;

/// Where work is done.
@FunctionalInterface
public interface Processes {
    /// Does work in a process.
    ///
    /// @param result the class of what comes out
    /// @throws HeapExhaustedException if its heap was limited, and too small
    /// @throws IOException if it failed otherwise
    <R> Outcome<R> run(Jvm jvm, Job<R> job, Class<R> result)
            throws IOException, InterruptedException, HeapExhaustedException;
}
