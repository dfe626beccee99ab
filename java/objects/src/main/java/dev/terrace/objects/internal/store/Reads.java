package dev.terrace.objects.internal.store;

import java.lang.invoke.VarHandle;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// Consistent reads, each of one committed state, even if the process that writes is active or was
/// killed.
///
/// A read that was overtaken by a commit is repeated. In the process that writes, a read that was
/// overtaken often makes the writer wait.
final class Reads {
    private static final int ATTEMPTS_BEFORE_LOCK = 64;

    /// The least number of attempts of a process that cannot lock before it gives up.
    private static final int ATTEMPTS_MIN = 4;

    /// The greatest number of attempts to read from an unreachable tier: each may take long.
    private static final int UNREACHABLE_MAX = 2;

    private final Store store;
    private final CommitLog log;
    private final Epoch epoch;
    private final WriterLock writer;
    private final boolean readOnly;
    private final ThreadLocal<@Nullable Overlay> view = new ThreadLocal<>();
    private final ThreadLocal<Reading> reading = ThreadLocal.withInitial(Reading::new);
    private volatile Duration patience = Duration.ofSeconds(10);

    /// The state of a thread's consistent reads. It is reused, so that reads make no garbage.
    private static final class Reading {
        boolean isUnderWay;

        /// The actions to run after the read.
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

    /// Whether a read that was overtaken by a commit is repeated; if not, [Store#alone(Supplier)]
    /// must do it.
    boolean mayTryAgain(int attempt) {
        return readOnly || attempt < ATTEMPTS_BEFORE_LOCK;
    }

    /// The time until which a read is repeated that was overtaken by commits so often.
    ///
    /// @param until the result of the previous call
    /// @throws StoreFailure.Busy if that time is over
    long patienceEnds(int attempt, long until) {
        if (attempt == 0 || !readOnly) {
            return 0;
        }
        long now = System.nanoTime();
        if (attempt >= ATTEMPTS_MIN && now - until >= 0) {
            throw new StoreFailure.Busy(
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

    /// The words that this thread must see instead of those in place: the words of a commit that
    /// are not in their places yet.
    @Nullable Overlay laidOver() {
        return view.get();
    }

    /// Runs `work` so that all its reads see one committed state. Not in a transaction.
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

    /// Runs an action if and when this thread's read has turned out to be of one committed state;
    /// at once if the thread is not reading.
    void afterRead(Runnable action) {
        Reading mine = reading.get();
        if (mine.isUnderWay) {
            mine.after.add(action);
        } else {
            action.run();
        }
    }

    private <T extends @Nullable Object> T attempt(Supplier<T> work, List<Runnable> actions) {
        if (store.seal().isConstant()) {
            return work.get();
        }
        long until = 0;
        int unreachable = 0;
        for (int attempt = 0; mayTryAgain(attempt); attempt++) {
            until = patienceEnds(attempt, until);
            actions.clear();
            // The word of a single-word commit is in its place before it is durable, and before the
            // sequence moves.
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
                        e instanceof StoreFailure.Unavailable && ++unreachable == UNREACHABLE_MAX;
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

    /// Throws another exception if the read did not meet damage, but data of a newer version of
    /// this library.
    void requireDamage(Throwable failure) {
        if (failure instanceof StoreFailure.Damaged) {
            store.requireKnownFormat();
        }
    }

    /// The words of a commit that may not be in their places yet; null if the commit has changed
    /// meanwhile.
    private @Nullable Overlay unstored(long sequence) {
        try {
            return log.read(sequence);
        } catch (StoreFailure.Damaged e) {
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
