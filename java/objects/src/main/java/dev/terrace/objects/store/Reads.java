package dev.terrace.objects.store;

import dev.terrace.objects.PoolDamagedException;
import java.lang.invoke.VarHandle;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// Consistent reads: of one committed state each, whether the process that writes is at work or was killed.
///
/// A read that a commit has come between is repeated. In the process that writes, one that this has happened to often has the writer wait.
final class Reads {
    private static final int ATTEMPTS_BEFORE_LOCK = 64;

    private final Store store;
    private final CommitLog log;
    private final Epoch epoch;
    private final ReentrantLock writer;
    private final boolean readOnly;
    private final ThreadLocal<@Nullable Overlay> view = new ThreadLocal<>();
    private final ThreadLocal<Reading> reading = ThreadLocal.withInitial(Reading::new);

    /// A thread's consistent read: kept from one to the next, which then makes no garbage.
    private static final class Reading {
        boolean isUnderWay;
        /// What is to be done after it.
        final List<Runnable> after = new ArrayList<>();
    }

    Reads(Store store, CommitLog log, Epoch epoch, ReentrantLock writer, boolean readOnly) {
        this.store = store;
        this.log = log;
        this.epoch = epoch;
        this.writer = writer;
        this.readOnly = readOnly;
    }

    /// Whether this thread is reading.
    boolean isUnderWay() {
        return reading.get().isUnderWay;
    }

    /// What this thread is to see laid over what is in place: the words of a commit that is on its way there.
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

    /// Done when, and only if, what this thread has read has turned out to be of one committed state; at once if it reads nothing.
    void afterRead(Runnable action) {
        Reading mine = reading.get();
        if (mine.isUnderWay) {
            mine.after.add(action);
        } else {
            action.run();
        }
    }

    private <T extends @Nullable Object> T attempt(Supplier<T> work, List<Runnable> actions) {
        for (int attempt = 0; readOnly || attempt < ATTEMPTS_BEFORE_LOCK; attempt++) {
            actions.clear();
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
                if (store.sequence() == sequence) {
                    throw e;
                }
                continue;
            }
            VarHandle.acquireFence();
            if (store.sequence() == sequence) {
                return result;
            }
        }
        actions.clear();
        writer.lock();
        try {
            return work.get();
        } finally {
            writer.unlock();
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
