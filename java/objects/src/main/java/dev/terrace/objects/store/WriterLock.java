package dev.terrace.objects.store;

import dev.terrace.objects.PoolBusyException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/// The lock of who writes to a pool.
///
/// A transaction whose thread waits for others to do parts of its work waits for ever: they wait for this lock.
/// Whoever waits here therefore looks at
/// what the owner does. One that itself waits, and has written nothing in between, for as long as the pool's patience
/// says, is not waited for any more.
/// How long one is at work does not matter.
final class WriterLock extends ReentrantLock {
    private static final long serialVersionUID = 1L;
    private static final int LOOKS = 8;
    private static final long LOOK_NANOS_MIN = 1_000_000;
    private static final long LOOK_NANOS_MAX = 100_000_000;

    private final String pool;
    private volatile long patienceNanos = Duration.ofSeconds(10).toNanos();
    /// How often it was acquired, also by who had it: who writes acquires it. Written by the owner.
    private long turns;
    /// Whether the owner does what is not the program's work. What that waits for ends.
    private volatile boolean isCommitting;

    WriterLock(String pool) {
        this.pool = pool;
    }

    void setPatience(Duration time) {
        Duration most = Duration.ofNanos(Long.MAX_VALUE);
        patienceNanos = time.compareTo(most) < 0 ? time.toNanos() : Long.MAX_VALUE;
    }

    /// Whether the owner is with the library's own work.
    void setCommitting(boolean is) {
        isCommitting = is;
    }

    /// Waits for the lock.
    ///
    /// @throws PoolBusyException if its owner waits, too, and does nothing else
    void acquire() {
        if (!tryLock()) {
            waitFor();
        }
        turns++;
    }

    private void waitFor() {
        boolean interrupted = false;
        try {
            long idleSince = System.nanoTime();
            Thread before = null;
            long turnsBefore = 0;
            while (true) {
                try {
                    if (tryLock(Math.clamp(patienceNanos / LOOKS, LOOK_NANOS_MIN, LOOK_NANOS_MAX), TimeUnit.NANOSECONDS)) {
                        return;
                    }
                } catch (InterruptedException e) {
                    interrupted = true;
                }
                Thread owner = getOwner();
                long now = System.nanoTime();
                if (owner == null || owner != before || turns != turnsBefore || isCommitting || !waits(owner)) {
                    idleSince = now;
                }
                before = owner;
                turnsBefore = turns;
                if (now - idleSince > patienceNanos) {
                    throw busy(before);
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt();
            }
        }
    }

    private static boolean waits(Thread thread) {
        return thread.getState() == Thread.State.WAITING || thread.getState() == Thread.State.BLOCKED;
    }

    private PoolBusyException busy(Thread owner) {
        return new PoolBusyException(pool + ": thread " + Thread.currentThread().getName() + " waits for the transaction of thread "
                + owner.getName() + ", which itself has waited for " + patienceNanos / 1_000_000 / 1000.0 + " s: if it waits for this one, as for"
                + " a part of a parallel stream, have its own thread do all of a transaction's work");
    }
}
