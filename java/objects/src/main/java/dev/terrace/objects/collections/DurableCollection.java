package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.StaleReferenceException;

/// What all durable collections are besides what `java.util` says of them.
///
/// Any number of threads may use a handle of a collection, and any number of handles may lead to
/// it. An iterator belongs to one thread.
///
/// What one operation changes is one transaction, which must fit into a log of half an extent: two
/// million words in a pool of 64 MiB extents. So millions of elements are added to a list, or
/// removed from its middle, in parts; else that throws [dev.terrace.objects.PoolFullException], and
/// it stays as it was. To clear or delete a collection of any size changes a few words: what it
/// held is freed in parts once that has been committed.
public sealed interface DurableCollection permits DurableSequence, DurableMap, DurableTree {
    /// The pool that it is in.
    Pool pool();

    /// Where it is, and which of those that have been there: never the same for two collections of
    /// a pool.
    long reference();

    /// Whether it is there, or has been deleted.
    boolean isAlive();

    /// Deletes it, with the texts and bytes that it holds. Objects that it refers to stay.
    ///
    /// @throws StaleReferenceException if it has been deleted before
    void delete();
}
