package dev.terrace.objects.internal.collections;

/// A pool, as far as it has a [Heap]. The heap is for this library's own packages, and a pool is in
/// one that programs see: so it is reached by way of [Heap#of(HeapOwner)], which they cannot see.
public abstract class HeapOwner {
    private final Heap heap;

    /// A pool that has this heap.
    protected HeapOwner(Heap heap) {
        this.heap = heap;
    }

    final Heap heap() {
        return heap;
    }
}
