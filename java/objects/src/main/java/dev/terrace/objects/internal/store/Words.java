package dev.terrace.objects.internal.store;

/// Words of the pool as the transaction under way sees them.
interface Words {
    /// The word at an offset.
    long get(long offset);

    /// Whether the transaction has changed the word at an offset.
    boolean isChanged(long offset);

    /// Has the transaction store a word.
    void put(long offset, long value);
}
