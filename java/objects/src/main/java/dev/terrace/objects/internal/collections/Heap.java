package dev.terrace.objects.internal.collections;

import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// What collections need of a pool.
public interface Heap {
    /// The heap of a pool.
    static Heap of(HeapOwner pool) {
        return pool.heap();
    }

    /// The pool that it is of.
    HeapOwner owner();

    /// Records, and the transactions that change them.
    Store store();

    /// Values of any length.
    Buffers buffers();

    /// What is left of collections that were cleared or deleted.
    Remains remains();

    /// Runs `work` so that all that it reads is of one committed state. Failures are told in the
    /// pool's words.
    <T extends @Nullable Object> T read(Supplier<T> work);

    /// Runs `work` as a transaction, again if it finds no room and something makes some. Failures
    /// are told in the pool's words.
    <T extends @Nullable Object> T change(Supplier<T> work);

    /// Where the root of this name leads; 0 if nowhere.
    long root(String name);

    /// Has the root of this name lead there; 0: nowhere.
    void setRoot(String name, long reference);

    /// A failure in the pool's words, for programs to see.
    RuntimeException told(StoreFailure failure);
}
