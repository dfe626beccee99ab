package dev.terrace.objects.internal.store;

import dev.terrace.objects.PoolBusyException;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.TierUnavailableException;
import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// Consistent reads: of one committed state each, whether the process that writes is at work or was
/// killed.
///
/// A read that a commit has come between is repeated. In the process that writes, one that this has
/// happened to often has the writer wait.
final class Reads {
    private static final int ATTEMPTS_BEFORE_LOCK = 64;

    /// How often who cannot lock reads something at least before it gives up.
    private static final int ATTEMPTS_MIN = 4;

    /// How often somebody looks for what lies on a tier that cannot be reached: each time may take
    /// long.
    private static final int UNREACHABLE_MAX = 2;

    private final Store store;
    private final CommitLog log;
    private final Epoch epoch;
    private final WriterLock writer;
    private final boolean readOnly;
    private final ThreadLocal<@Nullable Overlay> view = new ThreadLocal<>();
    private final ThreadLocal<Reading> reading = ThreadLocal.withInitial(Reading::new);
    private volatile Duration patience = Duration.ofSeconds(10);

    /// A thread's consistent read: kept from one to the next, which then makes no garbage.
    private static final class Reading {
        boolean isUnderWay;

        /// What is to be done after it.
        final List<Runnable> after = new ArrayList<>();
    }

    Reads(Store store, CommitLog log, Epoch epoch, WriterLock writer, boolean readOnly) {
        this.store = store;
        this.log = log;
        this.epoch = epoch;
        this.writer = writer;
        this.readOnly = readOnly;
    }

    void setPatience(Duration time) {
        patience = time;
    }

    /// Whether a read that was overtaken by a commit is repeated; if not, it is for
    /// [Store#alone(Supplier)].
    boolean mayTryAgain(int attempt) {
        return readOnly || attempt < ATTEMPTS_BEFORE_LOCK;
    }

    /// Until when something is read again, as it was overtaken by commits so often.
    ///
    /// @param until what this returned before the attempt before
    /// @throws PoolBusyException if that is over
    long patienceEnds(int attempt, long until) {
        if (attempt == 0 || !readOnly) {
            return 0;
        }
        long now = System.nanoTime();
        if (attempt >= ATTEMPTS_MIN && now - until >= 0) {
            throw new PoolBusyException(
                    store.pmem().name()
                            + ": another process has committed so often for "
                            + patience.toMillis() / 1000.0
                            + " s that what was to be read was never of one commit: read less at a"
                            + " time, read in the process that writes, or when it pauses");
        }
        return attempt == 1 ? now + patience.toNanos() : until;
    }

    /// Whether this thread is reading.
    boolean isUnderWay() {
        return reading.get().isUnderWay;
    }

    /// What this thread is to see laid over what is in place: the words of a commit that is on its
    /// way there.
    @Nullable Overlay laidOver() {
        return view.get();
    }

    /// Runs `work` so that all that it reads is of one committed state. Not in a transaction.
    <T extends @Nullable Object> T read(Supplier<T> work) {
        Reading mine = reading.get();
        if (mine.isUnderWay) {
            return work.get();
        }
        mine.isUnderWay = true;
        try {
            T result = attempt(work, mine.after);
            mine.after.forEach(Runnable::run);
            return result;
        } finally {
            mine.isUnderWay = false;
            mine.after.clear();
        }
    }

    /// Done when, and only if, what this thread has read has turned out to be of one committed
    /// state; at once if it reads nothing.
    void afterRead(Runnable action) {
        Reading mine = reading.get();
        if (mine.isUnderWay) {
            mine.after.add(action);
        } else {
            action.run();
        }
    }

    private <T extends @Nullable Object> T attempt(Supplier<T> work, List<Runnable> actions) {
        long until = 0;
        int unreachable = 0;
        for (int attempt = 0; mayTryAgain(attempt); attempt++) {
            until = patienceEnds(attempt, until);
            actions.clear();
            // A word alone is in its place before it is durable, and the sequence moves behind
            // that.
            long alone = epoch.alone();
            long sequence = store.sequence();
            Overlay laidOver = null;
            if ((sequence & 1) != 0) {
                laidOver = unstored(sequence);
                if (laidOver == null) {
                    Thread.onSpinWait();
                    continue;
                }
            }
            T result;
            try {
                result = laidOver == null ? work.get() : readWith(laidOver, work);
            } catch (RuntimeException | Error e) {
                boolean isHopeless =
                        e instanceof TierUnavailableException && ++unreachable == UNREACHABLE_MAX;
                if (store.sequence() == sequence && epoch.isAloneStill(alone) || isHopeless) {
                    requireDamage(e);
                    throw e;
                }
                continue;
            }
            VarHandle.acquireFence();
            if (store.sequence() == sequence && epoch.isAloneStill(alone)) {
                return result;
            }
        }
        actions.clear();
        writer.acquire();
        try {
            return work.get();
        } finally {
            writer.unlock();
        }
    }

    /// Throws something else if what a read has failed with is no damage, but what a newer library
    /// has written.
    void requireDamage(Throwable failure) {
        if (failure instanceof PoolDamagedException) {
            store.requireKnownFormat();
        }
    }

    /// The words of a commit that may not be in their places; null if that has changed meanwhile.
    private @Nullable Overlay unstored(long sequence) {
        try {
            return log.read(sequence);
        } catch (PoolDamagedException e) {
            if (store.sequence() == sequence) {
                throw e;
            }
            return null;
        }
    }

    private <T extends @Nullable Object> T readWith(Overlay laidOver, Supplier<T> work) {
        view.set(laidOver);
        epoch.layOver();
        try {
            return work.get();
        } finally {
            epoch.takeOff();
            view.remove();
        }
    }
}
