package dev.terrace.objects.internal.store;

/// Words of the pool as the present transaction sees them.
interface Words {
    /// The word at an offset.
    long get(long offset);

    /// Whether the transaction has changed the word at an offset.
    boolean isChanged(long offset);

    /// Changes a word in the transaction.
    void put(long offset, long value);
}
