package dev.terrace.objects.internal.store;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;

/// What takes a while in another thread.
public final class Delay {
    private Delay() {}

    /// Waits for another thread, which is done after this time: not as a thread does that sleeps.
    public static void await(Duration time) {
        Executor later = CompletableFuture.delayedExecutor(time.toNanos(), TimeUnit.NANOSECONDS);
        CompletableFuture.runAsync(() -> {}, later).join();
    }
}
