package dev.terrace.objects.evaluation.run;

/// The heap of a process was too small for its work, or so small that collections left no time for
/// it: a result like any other, where heaps are limited.
public final class HeapExhaustedException extends Exception {
    private static final long serialVersionUID = 1;

    /// Of the process with this limit.
    public HeapExhaustedException(int heapMib) {
        super("a heap of " + heapMib + " MiB is too small");
    }

    /// Of the process with this limit, which had so long.
    HeapExhaustedException(int heapMib, long seconds) {
        super("with a heap of " + heapMib + " MiB the work was not done within " + seconds + " s");
    }
}
