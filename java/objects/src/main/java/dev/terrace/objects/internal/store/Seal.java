package dev.terrace.objects.internal.store;

import java.nio.ByteBuffer;

/// The seal of a pool, which says durably that no word of the pool changes any more.
///
/// Readers of a sealed pool rely on that: their [Epoch] is constant, and no read is repeated. They
/// still check bounds and checksums, and the header of each object when a handle is led to it,
/// because a device may return wrong bytes.
///
/// Invariants:
/// * All commits are durable, and all their words in their places, before the seal is stored.
/// * A process that writes to a pool has the pool's lock and has found no seal under it.
public final class Seal {
    private final Store store;
    private final boolean isConstant;

    /// @throws StoreFailure.ReadOnly if the pool is sealed and was opened for writing
    /// @throws StoreFailure.Damaged if the pool is sealed in the middle of a commit
    Seal(Store store, boolean readOnly) {
        this.store = store;
        isConstant = isThere();
        if (isConstant && !readOnly) {
            throw refusal(store.pmem().name());
        }
        if (isConstant && (store.sequence() & 1) != 0) {
            throw new StoreFailure.Damaged(
                    store.pmem().name()
                            + " is sealed in the middle of a commit: its superblock is damaged");
        }
    }

    /// Throws an exception if a pool is sealed, before any of its files but that of the lock is
    /// opened for writing.
    ///
    /// @param page the first page of the pool
    /// @throws StoreFailure.ReadOnly if it is
    public static void requireNone(String pool, ByteBuffer page) {
        if (Feature.SEALED.isIn(pool, page)) {
            throw refusal(pool);
        }
    }

    /// Whether the pool was sealed when it was opened, so that no word of it changes. It is false
    /// in a process that has opened the pool before it was sealed.
    public boolean isConstant() {
        return isConstant;
    }

    /// Whether the pool is sealed.
    public boolean isThere() {
        return Feature.SEALED.isIn(store.pmem());
    }

    /// Seals the pool, durably. From then on, every process refuses to write to it.
    ///
    /// @param before what is done before, while no other thread writes
    /// @throws IllegalStateException in a transaction
    /// @throws StoreFailure.ReadOnly if this thread must not write
    /// @throws StoreFailure.Unavailable if the remote tier has segments to delete and cannot be
    ///   reached; the pool is not sealed then
    public void set(Runnable before) {
        if (store.inTransaction()) {
            throw new IllegalStateException("a pool cannot be sealed within a transaction");
        }
        store.requireWritable();
        store.alone(() -> {
            Changes changes = store.changes();
            changes.requireWhole();
            before.run();
            store.remote().settle();
            try {
                Feature.SEALED.addTo(store.pmem());
            } catch (RuntimeException | Error e) {
                throw changes.breakDown(e);
            }
            changes.refuse(refusal(store.pmem().name()));
            return null;
        });
    }

    private static StoreFailure.ReadOnly refusal(String pool) {
        return new StoreFailure.ReadOnly(
                pool
                        + " is sealed, so it never changes: open it to read, and write to another"
                        + " pool");
    }
}
