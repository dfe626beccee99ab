package dev.terrace.objects.internal.store;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The changes of the transaction under way, their commit and their rollback.
///
/// Changed words wait in an [Overlay]. New parts of persistent memory are written in place. The
/// thread that has the [WriterLock] uses this; [#requireWhole()] is for all threads.
///
/// Invariant: a commit without a log changes one value. Readers of other processes look at a word
/// once for each value in it, and the sequence does not tell them that the word changed between.
final class Changes {
    private final Store store;
    private final Region pmem;
    private final Superblock superblock;
    private final CommitLog log;

    private final Overlay overlay = new Overlay();

    /// How often a word that waits was changed: each value of a word is changed by itself.
    private int puts;

    /// The parts of persistent memory that the transaction has allocated, with their bytes; 0 for
    /// objects in columns.
    private final Overlay fresh = new Overlay();

    /// The chunks in whose columns the transaction has allocated objects, by their offsets.
    private final Map<Long, InColumns> freshInColumns = new HashMap<>();

    private final List<Long> freed = new ArrayList<>();
    private final List<Runnable> afterCommit = new ArrayList<>();
    private final List<Runnable> afterRollback = new ArrayList<>();

    /// Whether the transaction has invalidated objects that are read in place.
    private boolean deletes;

    private volatile @Nullable StoreFailure broken;

    /// New objects of a chunk, by the numbers of their slots.
    private record InColumns(Columns columns, BitSet slots) {}

    Changes(Store store, Superblock superblock, CommitLog log) {
        this.store = store;
        this.pmem = store.pmem();
        this.superblock = superblock;
        this.log = log;
    }

    /// The changed words.
    Overlay words() {
        return overlay;
    }

    /// The changed words, for reads of the thread that writes; null if there are none.
    @Nullable Overlay laidOver() {
        return overlay.size() == 0 ? null : overlay;
    }

    /// Changes a word of the record or node that begins at `owner`.
    void put(long owner, long offset, long value) {
        if (fresh.contains(owner)) {
            pmem.putLong(offset, value);
        } else {
            overlay.put(offset, value);
            puts++;
        }
    }

    /// Changes `bits` of a word of the record that begins at `owner` to those of `value`.
    ///
    /// In a column, other bits may be of objects that exist already. In place they stay as they are
    /// committed, also if the transaction has changed them.
    void put(long owner, long offset, long bits, long value) {
        if (!fresh.contains(owner)) {
            overlay.put(offset, merged(store.word(offset), bits, value));
            puts++;
            return;
        }
        pmem.putLong(offset, merged(pmem.getLong(offset), bits, value));
        if (overlay.contains(offset)) {
            overlay.put(offset, merged(overlay.get(offset, 0), bits, value));
        }
    }

    private static long merged(long word, long bits, long value) {
        return word & ~bits | value & bits;
    }

    /// A part of persistent memory is new. It is written in place until the commit.
    void allocated(long offset, long bytes) {
        fresh.put(offset, bytes);
    }

    /// An object in columns is new. It is written in place until the commit.
    void allocated(long record, Columns columns) {
        fresh.put(record, 0);
        freshInColumns
                .computeIfAbsent(
                        record - record % SizeClasses.CHUNK_BYTES,
                        _ -> new InColumns(columns, new BitSet()))
                .slots
                .set(Columns.slotOf(record));
    }

    /// The commit frees the part at this offset of persistent memory, or with this code of a disk.
    void free(long part) {
        freed.add(part);
    }

    /// Readers in place check their objects again after the commit.
    void invalidateReads() {
        deletes = true;
    }

    /// Runs an action when the transaction has committed.
    void afterCommit(Runnable action) {
        afterCommit.add(action);
    }

    /// Runs an action when the transaction is rolled back; the last action runs first.
    void afterRollback(Runnable action) {
        afterRollback.add(action);
    }

    /// Refuses all further changes, for this reason.
    void refuse(StoreFailure why) {
        broken = why;
    }

    private Allocator allocator() {
        return store.allocatorOf(-1);
    }

    /// Commits all changes, or rolls them back with an exception.
    void commit() {
        try {
            boolean isAlone = overlay.size() == 1 && puts == 1;
            if (isAlone && freed.isEmpty() && fresh.size() == 0) {
                putAlone(overlay.offset(0), overlay.value(0));
            } else if (overlay.size() > 0 || !freed.isEmpty()) {
                commitWords();
            }
        } catch (StoreFailure.Full e) {
            rollBack();
            throw e;
        } catch (RuntimeException | Error e) {
            throw breakDown(e);
        }
        List<Runnable> actions = List.copyOf(afterCommit);
        forget();
        actions.forEach(Runnable::run);
    }

    private void commitWords() {
        Events.Commit event = new Events.Commit();
        event.begin();
        long overflow = overflow();
        freed.forEach(this::freeNow);
        flushFresh();
        long logged = publish(overlay, log.overflowBytes(overlay.size()) == 0 ? 0 : overflow);
        if (deletes) {
            store.epoch().delete();
        }
        if (event.shouldCommit()) {
            event.pool = pmem.name();
            event.words = overlay.size();
            event.bytesLogged = logged;
            event.commit();
        }
    }

    /// The place for words that do not fit into the log. It is chosen before the transaction frees
    /// space, so no reader uses that place.
    private long overflow() {
        long bytes = overflowBytes();
        if (bytes == 0) {
            return 0;
        }
        long run = allocator().borrow(bytes);
        try {
            if (run == Store.NONE) {
                store.parts().grow();
                run = allocator().borrow(bytes);
            }
        } catch (StoreFailure.Full full) {
            throw new StoreFailure.Full(
                    tooLarge() + " as it has no room for the log of one: " + full.getMessage(),
                    full);
        }
        if (run == Store.NONE) {
            throw new StoreFailure.Full(tooLarge() + " as it has no room for the log of one");
        }
        return run;
    }

    private String tooLarge() {
        return pmem.name()
                + ": a transaction that changes "
                + changes()
                + " words is too large for this pool:"
                + " divide it into smaller transactions, also if it only deletes,";
    }

    /// An upper bound of the number of words that the transaction changes.
    private int changes() {
        return overlay.size() + 3 * freed.size();
    }

    /// Throws an exception if the transaction is too large for the pool.
    void requireSmallEnough() {
        overflowBytes();
    }

    private long overflowBytes() {
        long bytes = log.overflowBytes(changes());
        if (bytes > pmem.extentBytes() / 2) {
            throw new StoreFailure.Full(tooLarge() + " or make the pool with larger extents");
        }
        return bytes;
    }

    private void flushFresh() {
        for (int i = 0; i < fresh.size(); i++) {
            if (fresh.value(i) > 0) {
                pmem.flush(fresh.offset(i), fresh.value(i));
            }
        }
        freshInColumns.forEach((chunk, its) -> its.columns.flush(pmem, chunk, its.slots));
        store.disks().forEach(Disk::flush);
    }

    /// Makes words durable that belong to no transaction, all or none.
    void publish(Overlay words) {
        try {
            publish(words, 0);
        } catch (RuntimeException | Error e) {
            throw breakDown(e);
        }
    }

    /// Makes words durable, all or none; words that do not fit into the log are written to
    /// `overflow`. Returns the number of bytes written to the log.
    private long publish(Overlay words, long overflow) {
        store.epoch().changing();
        long logged = log.commit(words, overflow);
        pmem.committed();
        store.epoch().changed();
        store.usage().committed(logged);
        return logged;
    }

    /// Gives up all changes.
    void rollBack() {
        Events.Rollback event = new Events.Rollback();
        event.begin();
        int words = overlay.size();
        store.usage().rolledBack();
        store.epoch().changing();
        for (int i = 0; i < fresh.size(); i++) {
            // A handle of an object that was rolled back must not find the next object in its
            // place.
            long offset = fresh.offset(i);
            int next =
                    Math.min(Headers.generation(pmem.getLong(offset)) + 1, Headers.GENERATION_MAX);
            pmem.putLong(offset, Headers.of(superblock.secret(), offset, Headers.FREE, next));
        }
        // Chunks that the transaction had divided no longer are: threads that have read their
        // bitmaps read them again.
        store.epoch().changed();
        allocator().forgetIndex();
        store.disks().forEach(disk -> disk.allocator().forgetIndex());
        List<Runnable> actions = List.copyOf(afterRollback).reversed();
        forget();
        actions.forEach(Runnable::run);
        if (event.shouldCommit()) {
            event.pool = pmem.name();
            event.words = words;
            event.commit();
        }
    }

    private void forget() {
        overlay.clear();
        puts = 0;
        fresh.clear();
        freshInColumns.clear();
        freed.clear();
        afterCommit.clear();
        afterRollback.clear();
        store.disks().forEach(Disk::forget);
        store.remote().forget();
        deletes = false;
    }

    /// A device has failed during a commit. Whether the commit has happened is decided when the
    /// pool is opened again.
    StoreFailure breakDown(Throwable cause) {
        StoreFailure why =
                cause instanceof StoreFailure known
                        ? known
                        : new StoreFailure.Damaged(
                                pmem.name() + ": a commit could not be stored: " + cause, cause);
        broken = why;
        forget();
        return why;
    }

    /// Throws an exception if the pool must no longer be written.
    void requireWhole() {
        StoreFailure why = broken;
        if (why instanceof StoreFailure.Closed || why instanceof StoreFailure.ReadOnly) {
            throw why;
        }
        if (why != null) {
            throw new StoreFailure.Damaged(
                    "the pool failed before and must be opened anew: " + why.getMessage(), why);
        }
    }

    /// Changes one value of a word: that is a commit of its own.
    void putAlone(long offset, long value) {
        requireWhole();
        pmem.beforeChanges();
        try {
            store.epoch().storing();
            pmem.putLong(offset, value);
            store.epoch().stored();
            pmem.flush(offset, Long.BYTES);
            pmem.fence();
            pmem.putLong(Superblock.SEQUENCE_AT, pmem.getLong(Superblock.SEQUENCE_AT) + 2);
            pmem.committed();
            store.usage().committed(0);
        } catch (RuntimeException | Error e) {
            throw breakDown(e);
        }
    }

    private void freeNow(long what) {
        if (what >= 0) {
            allocator().free(what);
        } else {
            store.allocatorOf(Disk.ofCode(what)).free(Disk.offsetOfCode(what));
        }
    }
}
