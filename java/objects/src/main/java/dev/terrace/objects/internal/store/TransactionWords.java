package dev.terrace.objects.internal.store;

/// Words as the thread sees them that is in a transaction; what that has changed is its own
/// thread's to see.
///
/// @param changed what it has changed
record TransactionWords(Store store, Overlay changed) implements Words {
    @Override
    public long get(long offset) {
        return store.word(offset);
    }

    @Override
    public boolean isChanged(long offset) {
        return changed.contains(offset);
    }

    @Override
    public void put(long offset, long value) {
        changed.put(offset, value);
    }
}
