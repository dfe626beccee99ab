package dev.terrace.objects.store;

/// What sees where something in a pool leads.
public interface Links {
    /// It owns what begins at this offset of persistent memory.
    void owned(long offset);

    /// It owns the buffer that this slot leads to.
    void slot(long slot);

    /// It leads to an object that it does not own.
    void reference(long reference);
}
