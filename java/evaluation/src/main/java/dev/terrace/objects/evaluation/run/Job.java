package dev.terrace.objects.evaluation.run;

/// Work for a process of its own: a record, which that process is given as JSON.
///
/// @param <R> what comes out of it, a record, too
public interface Job<R> {
    /// Does it.
    R run() throws Exception;
}
