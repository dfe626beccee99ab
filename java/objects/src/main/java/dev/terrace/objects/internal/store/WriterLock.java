package dev.terrace.objects.internal.store;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.time.Duration;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;
import org.jspecify.annotations.Nullable;

/// The lock for writing to a pool.
///
/// A transaction whose thread waits for other threads to do parts of its work would wait forever,
/// because they wait for this lock. Therefore a waiting thread observes the owner. It gives up when
/// the owner has done nothing but wait for the pool's patience. An owner may work for any time.
///
/// Invariants:
/// * Threads get the lock in the order of their arrival. They queue at `first`; only the owner of
///   `first` waits for the lock itself and observes the lock's owner. The other threads cost
///   nothing and keep their places.
/// * A new thread may overtake threads that have waited for less than [#OVERTAKEN_NANOS_MAX]:
///   otherwise each of many short transactions would need a switch of threads. It overtakes no
///   other threads.
/// * Observations of the owner are passed on to the next observer: all waiting threads give up
///   together, not each after its own patience.
/// * A thread is at work if it does not wait, or waits for a tier, or waits for a pool whose owner
///   is at work. It has been at work if it has used the processor or has written since the last
///   observation. The processor time of a virtual thread cannot be measured: if it waits at each
///   observation, it counts as waiting, unless it has written.
final class WriterLock extends ReentrantLock {
    private static final long serialVersionUID = 1L;
    private static final int LOOKS = 8;
    private static final long LOOK_NANOS_MIN = 1_000_000;
    private static final long LOOK_NANOS_MAX = 100_000_000;
    private static final long OVERTAKEN_NANOS_MAX = 1_000_000;

    /// Observations older than this are discarded.
    private static final long UNSEEN_NANOS_MAX = 10 * LOOK_NANOS_MAX;

    /// The unknown processor time of a thread.
    private static final long UNKNOWN = -1;

    /// The lock that each thread waits for.
    private static final Map<Thread, WriterLock> WAITING = new ConcurrentHashMap<>();

    /// Threads that may wait for a tier.
    private static final Set<Thread> AT_TIERS = ConcurrentHashMap.newKeySet();

    private final String pool;

    /// The thread that gets the lock next owns this one.
    private final ReentrantLock first = new ReentrantLock(true);

    /// Whether the first waiting thread must not be overtaken. Written by the owner of `first`.
    private volatile boolean isFirstNext;

    private volatile long patienceNanos = Duration.ofSeconds(10).toNanos();

    /// How often the lock was acquired, including reentrant acquisitions: each write acquires it.
    /// Written by the owner.
    private long turns;

    // The observation of the owner of `first`, its first time, and its last time.
    private transient @Nullable Idle seen;
    private long seenSince;
    private long seenLast;

    /// An observation of a waiting thread, which stays the same as long as the thread does nothing
    /// but wait.
    ///
    /// @param thread the number of the owner's thread, or, if the owner waits for other pools, of
    ///   the thread that it waits for in the end
    /// @param turns the turns of the locks on the way there
    /// @param cpuNanos the processor time of that thread, or [#UNKNOWN]
    private record Idle(long thread, long turns, long cpuNanos) {}

    /// Loaded when a thread waits, which does not happen in most programs.
    private static final class Processor {
        private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
        private static final boolean IS_KNOWN = THREADS.isThreadCpuTimeSupported();

        static long nanosOf(Thread thread) {
            return IS_KNOWN && !thread.isVirtual()
                    ? THREADS.getThreadCpuTime(thread.threadId())
                    : UNKNOWN;
        }
    }

    WriterLock(String pool) {
        this.pool = pool;
    }

    /// The time fits into nanoseconds: [Store#setPatience(Duration)] ensures it.
    void setPatience(Duration time) {
        patienceNanos = time.toNanos();
    }

    /// Runs work that may wait for a tier. Such a wait ends, so it counts as work for all pools
    /// that this thread writes to.
    static <T extends @Nullable Object> T atTier(Uninterrupted.Work<T> work) throws IOException {
        Thread me = Thread.currentThread();
        boolean isOutermost = AT_TIERS.add(me);
        try {
            return work.run();
        } finally {
            if (isOutermost) {
                AT_TIERS.remove(me);
            }
        }
    }

    /// Waits for the lock.
    ///
    /// @throws StoreFailure.Busy if its owner waits, too, and does nothing else
    void acquire() {
        acquire(true);
    }

    /// Waits for the lock in turn, to close the pool: as long as it takes.
    void acquireToClose() {
        acquire(false);
    }

    private void acquire(boolean givesUp) {
        if (isFirstNext && !isHeldByCurrentThread() || !tryLock()) {
            waitFor(givesUp);
        }
        turns++;
    }

    private void waitFor(boolean givesUp) {
        Thread me = Thread.currentThread();
        long since = System.nanoTime();
        boolean interrupted = false;
        WAITING.put(me, this);
        first.lock();
        try {
            long lookNanos = Math.clamp(patienceNanos / LOOKS, LOOK_NANOS_MIN, LOOK_NANOS_MAX);
            while (!tryLock()) {
                isFirstNext = isOverdue(since);
                look(givesUp);
                try {
                    if (tryLock(
                            isFirstNext ? lookNanos : OVERTAKEN_NANOS_MAX, TimeUnit.NANOSECONDS)) {
                        return;
                    }
                } catch (InterruptedException e) {
                    interrupted = true;
                }
            }
        } finally {
            // The threads behind may have waited for as long.
            isFirstNext = first.hasQueuedThreads() && isOverdue(since);
            first.unlock();
            WAITING.remove(me);
            if (interrupted) {
                me.interrupt();
            }
        }
    }

    private static boolean isOverdue(long since) {
        return System.nanoTime() - since >= OVERTAKEN_NANOS_MAX;
    }

    private void look(boolean givesUp) {
        Thread owner = getOwner();
        Idle now = idle();
        long time = System.nanoTime();
        boolean isStillIdle =
                now != null
                        && now.equals(seen)
                        && (now.cpuNanos != UNKNOWN || time - seenLast < UNSEEN_NANOS_MAX);
        seenLast = time;
        if (!isStillIdle) {
            seen = now;
            seenSince = time;
        } else if (givesUp && owner != null && time - seenSince > patienceNanos) {
            throw busy(owner);
        }
    }

    /// Observes the owner, or the thread that it waits for at other pools; null if that thread is
    /// at work.
    private @Nullable Idle idle() {
        Set<Thread> met = new HashSet<>();
        WriterLock lock = this;
        long turnsMet = 0;
        while (true) {
            Thread owner = lock.getOwner();
            if (owner == null || AT_TIERS.contains(owner)) {
                return null;
            }
            turnsMet += lock.turns;
            if (!met.add(owner)) {
                // The threads wait for one another.
                return new Idle(owner.threadId(), turnsMet, 0);
            }
            WriterLock awaited = WAITING.get(owner);
            if (awaited == null) {
                return waits(owner)
                        ? new Idle(owner.threadId(), turnsMet, Processor.nanosOf(owner))
                        : null;
            }
            if (awaited.getOwner() == owner) {
                // It has just acquired the lock.
                return null;
            }
            lock = awaited;
        }
    }

    private static boolean waits(Thread thread) {
        return switch (thread.getState()) {
            case WAITING, TIMED_WAITING, BLOCKED -> true;
            case NEW, RUNNABLE, TERMINATED -> false;
        };
    }

    private StoreFailure.Busy busy(Thread owner) {
        return new StoreFailure.Busy(
                pool
                        + ": thread "
                        + Thread.currentThread().getName()
                        + " waits for the transaction of thread "
                        + owner.getName()
                        + ", which itself has waited for "
                        + patienceNanos / 1_000_000 / 1000.0
                        + " s: if it waits for this one, as for a part of a parallel stream, have"
                        + " its own thread do all of a transaction's work; if both write to several"
                        + " pools, have all threads begin with the same one");
    }
}
