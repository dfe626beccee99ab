package dev.terrace.objects.internal.store;

/// Words as the thread of a transaction sees them, with the transaction's own changes.
///
/// @param changed the words that the transaction has changed
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
