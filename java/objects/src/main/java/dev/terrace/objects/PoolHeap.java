package dev.terrace.objects;

import dev.terrace.objects.internal.collections.Heap;
import dev.terrace.objects.internal.collections.HeapOwner;
import dev.terrace.objects.internal.collections.Remains;
import dev.terrace.objects.internal.store.Buffers;
import dev.terrace.objects.internal.store.Store;
import dev.terrace.objects.internal.store.StoreFailure;
import java.util.Objects;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/// A pool as collections see it.
final class PoolHeap implements Heap {
    private final Store store;
    private final Buffers buffers;
    // A pool is made with its heap, and is the heap's from the first line of its own on.
    private @Nullable Pool pool;

    PoolHeap(Store store) {
        this.store = store;
        buffers = new Buffers(store);
    }

    void bind(Pool its) {
        pool = its;
    }

    private Pool pool() {
        return Objects.requireNonNull(pool);
    }

    @Override
    public HeapOwner owner() {
        return pool();
    }

    @Override
    public Store store() {
        return store;
    }

    @Override
    public Buffers buffers() {
        return buffers;
    }

    @Override
    public Remains remains() {
        return pool().remains();
    }

    @Override
    public <T extends @Nullable Object> T read(Supplier<T> work) {
        return pool().read(work);
    }

    @Override
    public <T extends @Nullable Object> T change(Supplier<T> work) {
        return pool().change(work);
    }

    @Override
    public long root(String name) {
        return pool().rootReference(name);
    }

    @Override
    public void setRoot(String name, long reference) {
        pool().setRootReference(name, reference);
    }

    @Override
    public RuntimeException told(StoreFailure failure) {
        return Failures.told(failure);
    }
}
