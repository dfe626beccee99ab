package dev.terrace.objects.internal.store;

import dev.terrace.objects.PoolBusyException;
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

/// The lock of who writes to a pool.
///
/// A transaction whose thread waits for others to do parts of its work waits for ever: they wait
/// for this lock. A thread that waits here therefore looks at what the owner does. An owner that
/// has only waited, for as long as the pool's patience says, is not waited for any more. How long
/// one is at work does not matter.
///
/// Invariants:
/// * Threads get the lock in the order in which they came. They queue at `first`, whose owner alone
///   waits for the lock itself. It alone looks at the owner, so the others cost nothing, and keep
///   their places.
/// * A thread that comes may overtake those that have waited for less than [#OVERTAKEN_NANOS_MAX]:
///   otherwise each of many short transactions would need a switch of threads. It overtakes nobody
///   else.
/// * What was seen of the owner is for the next who looks, too: all that wait are told at once, not
///   one patience after another.
/// * A thread is at work if it does not wait, or waits for a tier, or waits for a pool whose owner
///   is at work. It has been at work if it has used the processor or has written since the look
///   before. Nobody can tell how long a virtual thread has used the processor: such a thread that
///   waits whenever somebody looks has only waited, unless it has written.
final class WriterLock extends ReentrantLock {
    private static final long serialVersionUID = 1L;
    private static final int LOOKS = 8;
    private static final long LOOK_NANOS_MIN = 1_000_000;
    private static final long LOOK_NANOS_MAX = 100_000_000;
    private static final long OVERTAKEN_NANOS_MAX = 1_000_000;

    /// What was seen longer ago says nothing of what has been since.
    private static final long UNSEEN_NANOS_MAX = 10 * LOOK_NANOS_MAX;

    /// What is not known of how long a thread has used the processor.
    private static final long UNKNOWN = -1;

    /// Which threads wait for which lock.
    private static final Map<Thread, WriterLock> WAITING = new ConcurrentHashMap<>();

    /// Threads that may wait for a tier.
    private static final Set<Thread> AT_TIERS = ConcurrentHashMap.newKeySet();

    private final String pool;

    /// Had by who gets the lock next.
    private final ReentrantLock first = new ReentrantLock(true);

    /// Whether the first of those that wait must not be overtaken. Written by the owner of `first`.
    private volatile boolean isFirstNext;

    private volatile long patienceNanos = Duration.ofSeconds(10).toNanos();

    /// How often it was acquired, also by who had it: who writes acquires it. Written by the owner.
    private long turns;

    // What the owner of `first` has seen, since when, and when last.
    private transient @Nullable Idle seen;
    private long seenSince;
    private long seenLast;

    /// What can be seen of a thread that waits: it stays the same as long as the thread does
    /// nothing else.
    ///
    /// @param thread the number of the thread that the owner, if it waits for another pool, waits
    ///   for in the end; the owner's, if not
    /// @param turns of the locks that are on the way there
    /// @param cpuNanos for how long that thread has used the processor, or [#UNKNOWN]
    private record Idle(long thread, long turns, long cpuNanos) {}

    /// Loaded when somebody waits, which most programs never do.
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

    /// The time is one that nanoseconds can tell, which [Store#setPatience(Duration)] sees to.
    void setPatience(Duration time) {
        patienceNanos = time.toNanos();
    }

    /// Does what may wait for a tier. That ends, so it counts as work, whichever pools this thread
    /// writes to.
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
    /// @throws PoolBusyException if its owner waits, too, and does nothing else
    void acquire() {
        if (isFirstNext && !isHeldByCurrentThread() || !tryLock()) {
            waitFor();
        }
        turns++;
    }

    private void waitFor() {
        Thread me = Thread.currentThread();
        long since = System.nanoTime();
        boolean interrupted = false;
        WAITING.put(me, this);
        first.lock();
        try {
            long lookNanos = Math.clamp(patienceNanos / LOOKS, LOOK_NANOS_MIN, LOOK_NANOS_MAX);
            while (!tryLock()) {
                isFirstNext = isOverdue(since);
                look();
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
            // Those behind have perhaps waited for as long.
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

    private void look() {
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
        } else if (owner != null && time - seenSince > patienceNanos) {
            throw busy(owner);
        }
    }

    /// What can be seen of the owner, or of who it waits for at other pools; null if that is at
    /// work.
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
                // They wait for one another.
                return new Idle(owner.threadId(), turnsMet, 0);
            }
            WriterLock awaited = WAITING.get(owner);
            if (awaited == null) {
                return waits(owner)
                        ? new Idle(owner.threadId(), turnsMet, Processor.nanosOf(owner))
                        : null;
            }
            if (awaited.getOwner() == owner) {
                // It has just got it.
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

    private PoolBusyException busy(Thread owner) {
        return new PoolBusyException(
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
