package dev.terrace.objects.internal.store;

import java.util.List;

/// Receives the references of a structure in a pool.
public interface Links {
    /// It owns the record or node at this offset of persistent memory.
    void owned(long offset);

    /// It owns the buffer of the slot at `at`, if the slot has one.
    ///
    /// @param owner the offset of the record, node or link with the slot, for changes with
    ///   [Store#putWord]
    /// @param tiers the tiers of the value, the best first
    void slot(long owner, long at, List<Medium> tiers);

    /// It refers to an object that it does not own.
    void reference(long reference);
}
