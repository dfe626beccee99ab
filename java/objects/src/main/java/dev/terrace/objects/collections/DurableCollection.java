package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.StaleReferenceException;

/// What all durable collections are besides what `java.util` says of them.
///
/// Any number of threads may use a handle of a collection, and any number of handles may lead to it. An iterator belongs to one thread.
/// A transaction's changes must fit into memory and into an extent's log: what would change many millions of words at once throws
/// [dev.terrace.objects.PoolFullException], and leaves the collection as it was.
public sealed interface DurableCollection permits DurableSequence, DurableMap, DurableTree {
    /// The pool that it is in.
    Pool pool();

    /// Where it is, and which of those that have been there: never the same for two collections of a pool.
    long reference();

    /// Whether it is there, or has been deleted.
    boolean isAlive();

    /// Deletes it, with the texts and bytes that it holds. Objects that it refers to stay.
    ///
    /// @throws StaleReferenceException if it has been deleted before
    void delete();
}
