package dev.terrace.objects.tools;

import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import picocli.CommandLine.Model.CommandSpec;

/// Says on standard error for how long a command has been at work, each second, if somebody sits
/// there.
final class Progress {
    private Progress() {}

    /// Runs `work`. Messages meanwhile are removed from the terminal afterwards.
    static <T> T during(CommandSpec spec, Supplier<T> work) {
        if (!isTerminal()) {
            return work.get();
        }
        CountDownLatch done = new CountDownLatch(1);
        PrintWriter err = spec.commandLine().getErr();
        Thread thread = Thread.ofVirtual().start(() -> show(spec.name(), err, done));
        try {
            return work.get();
        } finally {
            done.countDown();
            join(thread);
        }
    }

    /// Whether standard error is a terminal. [System#console()] speaks of the other streams.
    private static boolean isTerminal() {
        try {
            String leads = Files.readSymbolicLink(Path.of("/proc/self/fd/2")).toString();
            return leads.startsWith("/dev/pts/")
                    || leads.startsWith("/dev/tty")
                    || leads.equals("/dev/console");
        } catch (IOException | UnsupportedOperationException unknown) {
            return false;
        }
    }

    private static void show(String name, PrintWriter err, CountDownLatch done) {
        try {
            for (int seconds = 1; !done.await(1, TimeUnit.SECONDS); seconds++) {
                err.print("\r" + name + ": " + seconds + " s");
                err.flush();
            }
            err.print("\r\033[K");
            err.flush();
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }
}
