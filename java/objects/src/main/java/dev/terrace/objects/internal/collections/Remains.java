package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Headers;
import dev.terrace.objects.internal.store.Links;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import dev.terrace.objects.internal.store.Superblock;

/// The contents of large collections that were cleared or deleted. Taking them from the collection
/// changes a few words; after that has been committed, they are freed in transactions of bounded
/// size.
///
/// The superblock has room for one record of remains, so that a full pool can be cleared; further
/// records form a chain. Each record has the layout of the collection's record, followed by its
/// kind and the next record. The contents that are not freed yet are as sound as a collection. So
/// if a process dies meanwhile, the next process that writes continues.
public final class Remains {
    private static final long HEAD_AT = Superblock.REMAINS_AT;
    private static final long FIRST = Superblock.FIRST_REMAINS_AT;
    private static final int NEXT_AT = Anchor.BYTES;
    private static final int KIND_AT = NEXT_AT + Long.BYTES;
    private static final int BYTES = KIND_AT + Long.BYTES;

    private final Heap heap;
    private final Store store;

    /// Whether there may be remains. The thread that has committed writes it; a thread that sees it
    /// late leaves the work to the next one.
    private boolean arePending;

    /// Whether this process has left remains: it frees them itself.
    private boolean areNew;

    /// Those of a heap.
    public Remains(Heap heap) {
        this.heap = heap;
        store = heap.store();
        arePending = !isEmpty();
    }

    /// Whether there is nothing to be freed.
    public boolean isEmpty() {
        return store.word(FIRST + KIND_AT) == 0 && store.word(HEAD_AT) == 0;
    }

    /// Takes over the contents of a collection that is being cleared or deleted, and returns
    /// whether there was room for that.
    public boolean take(Anchor from) {
        long record = FIRST;
        if (store.word(FIRST + KIND_AT) != 0) {
            try {
                record = store.allocate(BYTES, Anchor.REMAINS);
            } catch (StoreFailure.Full full) {
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

    /// Frees remains, if there are any: all of them if this process has left some, else a few. It
    /// is called after a transaction has committed; a failure here does not undo that transaction.
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

    /// Frees all remains, and returns whether there were any. Outside of transactions.
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
        } catch (StoreFailure.Full | StoreFailure.Busy full) {
            // The next transaction tries again.
            arePending = true;
            return false;
        } catch (StoreFailure | IndexOutOfBoundsException damaged) {
            // A check reports it, or the next use of the pool.
            arePending = false;
            return false;
        }
    }

    /// Frees some of the remains, in a transaction.
    private void freeSome() {
        store.transact(() -> {
            if (store.word(FIRST + KIND_AT) != 0) {
                if (Anchor.ofRemains(heap, FIRST).freeLast()) {
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
        if (Anchor.ofRemains(heap, record).freeLast()) {
            store.putWord(0, HEAD_AT, store.word(record + NEXT_AT));
            store.free(record);
        }
    }

    private void requireRecord(long record) {
        if (Headers.type(store.header(record)) != Anchor.REMAINS || !store.hasHeader(record)) {
            throw new StoreFailure.Damaged(
                    store.pmem().name()
                            + ": what is to be freed leads to "
                            + record
                            + ", where nothing is");
        }
    }

    /// Shows the records of the chain, and the slots that the record in the superblock owns.
    /// [#links(Pool, long, Links)] shows the slots of each other record.
    public void links(Links links) {
        if (store.word(FIRST + KIND_AT) != 0) {
            links(heap, FIRST, links);
        }
        long left = store.pmem().extents() * store.pmem().extentBytes() / BYTES;
        for (long record = store.word(HEAD_AT);
                record != 0;
                record = store.word(record + NEXT_AT)) {
            requireRecord(record);
            links.owned(record);
            if (--left < 0) {
                throw new StoreFailure.Damaged(
                        store.pmem().name() + ": what is to be freed has become a circle");
            }
        }
    }

    /// Whether a type number is the number of records of remains.
    public static boolean isRecord(int type) {
        return type == Anchor.REMAINS;
    }

    /// Shows the slots that a record owns.
    public static void links(Heap heap, long record, Links links) {
        Anchor.ofRemains(heap, record).contentLinks(links);
    }

    /// The kind of the collection that left the remains at a record; 0 if it is a collection.
    public static int kindOf(Anchor anchor) {
        boolean isRecord = anchor.record == FIRST || isRecord(Headers.type(anchor.header));
        return isRecord ? (int) anchor.get(KIND_AT) : 0;
    }
}
