package dev.terrace.objects.evaluation.run;

import java.util.ArrayDeque;
import java.util.Deque;

/// The actions to run when this process must end before its work is done, as by Ctrl-C. They end
/// processes that it has started, and remove files that it has put into memory, because no other
/// process would.
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
