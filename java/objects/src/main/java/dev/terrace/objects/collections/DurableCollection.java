package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.StaleReferenceException;

/// The properties of all durable collections, in addition to those of `java.util`.
///
/// Any number of threads may use a handle of a collection, and any number of handles may lead to
/// it. An iterator belongs to one thread.
///
/// Each operation is a transaction, which must fit into a log of half an extent: two million words
/// in a pool of 64 MiB extents. Therefore add millions of elements to a list, or remove them from
/// its middle, in parts; a larger operation throws [dev.terrace.objects.PoolFullException] and
/// changes nothing. Clearing or deleting a collection of any size changes only a few words: its
/// contents are freed in parts after that has been committed.
public sealed interface DurableCollection
        permits DurableSequence, DurableMap, DurableTree, DurableSet, DurableSortedSet {
    /// The pool of the collection.
    Pool pool();

    /// The collection's place and the generation of that place. No two collections of a pool ever
    /// have the same reference.
    long reference();

    /// Whether the collection exists, that is, has not been deleted.
    boolean isAlive();

    /// Deletes the collection, with the values that it owns. Objects that it refers to stay.
    ///
    /// @throws StaleReferenceException if it has been deleted before
    void delete();
}
