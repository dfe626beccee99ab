package dev.terrace.objects.internal.store;

import dev.terrace.objects.StorageTier;
import java.util.List;

/// What sees where something in a pool leads.
public interface Links {
    /// It owns what begins at this offset of persistent memory.
    void owned(long offset);

    /// It owns the buffer that the slot at `at` leads to, if it leads to one.
    ///
    /// @param owner where the slot's record, node or link begins: what [Store#putWord] is told to
    ///   change it
    /// @param tiers where the value may lie, the best first
    void slot(long owner, long at, List<StorageTier> tiers);

    /// It leads to an object that it does not own.
    void reference(long reference);
}
