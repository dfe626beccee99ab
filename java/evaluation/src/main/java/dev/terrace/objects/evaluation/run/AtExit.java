package dev.terrace.objects.evaluation.run;

import java.util.ArrayDeque;
import java.util.Deque;

/// What is still to be done when this process is told to end before its work is done, as by Ctrl-C:
/// processes that it has started are ended, and what it has put into memory is removed, which
/// nobody else would do.
final class AtExit {
    private static final Deque<Runnable> ACTIONS = new ArrayDeque<>();

    static {
        Runtime.getRuntime().addShutdownHook(new Thread(AtExit::runAll, "at exit"));
    }

    private AtExit() {}

    /// Adds something, to be done before what was added earlier.
    static void add(Runnable action) {
        synchronized (ACTIONS) {
            ACTIONS.push(action);
        }
    }

    /// It need not be done any more.
    static void remove(Runnable action) {
        synchronized (ACTIONS) {
            ACTIONS.remove(action);
        }
    }

    private static void runAll() {
        synchronized (ACTIONS) {
            ACTIONS.forEach(Runnable::run);
        }
    }
}
