package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolBusyException;
import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFullException;
import dev.terrace.objects.TerraceException;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.Superblock;

/// What large collections held that were cleared or deleted: it is taken from them in a few words,
/// and freed bit by bit after that has been committed, in transactions of bounded size. For this
/// library's own packages.
///
/// The superblock has room for one record that leads to it, so that a full pool can be cleared;
/// others form a chain. Each is laid out as that of the collection was, with its kind and the next
/// of them behind, and what is not freed yet is as sound as a collection; so whoever dies in
/// between leaves a pool in which the next who writes goes on.
public final class Remains {
    private static final long HEAD_AT = Superblock.REMAINS_AT;
    private static final long FIRST = Superblock.FIRST_REMAINS_AT;
    private static final int NEXT_AT = Anchor.BYTES;
    private static final int KIND_AT = NEXT_AT + Long.BYTES;
    private static final int BYTES = KIND_AT + Long.BYTES;

    private final Pool pool;
    private final Store store;

    /// Whether there may be something. Written by who has committed; others that see it late leave
    /// the work to the next.
    private boolean arePending;

    /// Whether this process has left something: whoever was here last frees what it has left
    /// itself.
    private boolean areNew;

    /// Those of a pool.
    public Remains(Pool pool) {
        this.pool = pool;
        store = pool.store();
        arePending = !isEmpty();
    }

    /// Whether there is nothing to be freed.
    public boolean isEmpty() {
        return store.word(FIRST + KIND_AT) == 0 && store.word(HEAD_AT) == 0;
    }

    /// Takes over what a collection holds, which is to be empty or gone when the transaction
    /// commits; whether there was room for that.
    boolean take(Anchor from) {
        long record = FIRST;
        if (store.word(FIRST + KIND_AT) != 0) {
            try {
                record = store.allocate(BYTES, Anchor.REMAINS);
            } catch (PoolFullException full) {
                return false;
            }
            store.putWord(record, record + NEXT_AT, store.word(HEAD_AT));
            store.putWord(0, HEAD_AT, record);
        }
        from.copyContent(record);
        store.putWord(record, record + KIND_AT, from.kind());
        store.afterCommit(() -> {
            arePending = true;
            areNew = true;
        });
        return true;
    }

    /// Frees something, if there is something: all of it after this process has left some, else a
    /// little. Called when a transaction has committed, whose work is done whatever happens here.
    public void tidy() {
        if (!arePending || store.inTransaction()) {
            return;
        }
        boolean all = areNew;
        areNew = false;
        if (all) {
            freeAll();
        } else {
            freeSomeIfPossible();
        }
    }

    /// Frees all there is; whether that was something. Outside of transactions.
    public boolean freeAll() {
        boolean any = false;
        while (arePending && freeSomeIfPossible()) {
            any = true;
        }
        return any;
    }

    private boolean freeSomeIfPossible() {
        try {
            freeSome();
            return true;
        } catch (PoolFullException | PoolBusyException full) {
            // The next transaction tries again.
            arePending = true;
            return false;
        } catch (TerraceException | IndexOutOfBoundsException damaged) {
            // A check tells, or whoever uses the pool next.
            arePending = false;
            return false;
        }
    }

    /// Frees some of what there is, in a transaction.
    private void freeSome() {
        store.transact(() -> {
            if (store.word(FIRST + KIND_AT) != 0) {
                if (Anchor.ofRemains(pool, FIRST).freeLast()) {
                    store.putWord(0, FIRST + KIND_AT, 0);
                }
            } else if (store.word(HEAD_AT) != 0) {
                freeSomeOf(store.word(HEAD_AT));
            }
            arePending = !isEmpty();
            return true;
        });
    }

    private void freeSomeOf(long record) {
        requireRecord(record);
        if (Anchor.ofRemains(pool, record).freeLast()) {
            store.putWord(0, HEAD_AT, store.word(record + NEXT_AT));
            store.free(record);
        }
    }

    private void requireRecord(long record) {
        if (Pool.typeOf(store.header(record)) != Anchor.REMAINS || !store.hasHeader(record)) {
            throw new PoolDamagedException(
                    store.pmem().name()
                            + ": what is to be freed leads to "
                            + record
                            + ", where nothing is");
        }
    }

    /// Shows the chain's records, and what the record in the superblock owns. What each of the
    /// others owns, [#links(Pool, long, Links)] shows.
    public void links(Links links) {
        if (store.word(FIRST + KIND_AT) != 0) {
            links(pool, FIRST, links);
        }
        long left = store.pmem().extents() * store.pmem().extentBytes() / BYTES;
        for (long record = store.word(HEAD_AT);
                record != 0;
                record = store.word(record + NEXT_AT)) {
            requireRecord(record);
            links.owned(record);
            if (--left < 0) {
                throw new PoolDamagedException(
                        store.pmem().name() + ": what is to be freed has become a circle");
            }
        }
    }

    /// Whether a type's number is that of such records.
    public static boolean isRecord(int type) {
        return type == Anchor.REMAINS;
    }

    /// Shows what a record owns.
    public static void links(Pool pool, long record, Links links) {
        Anchor.ofRemains(pool, record).contentLinks(links);
    }

    /// What kind of collection the remains at a record are of; 0 if it is a collection.
    static int kindOf(Anchor anchor) {
        boolean isRecord = anchor.record == FIRST || isRecord(Pool.typeOf(anchor.header));
        return isRecord ? (int) anchor.get(KIND_AT) : 0;
    }
}
