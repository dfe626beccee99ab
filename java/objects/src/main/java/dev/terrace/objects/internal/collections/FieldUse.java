package dev.terrace.objects.internal.collections;

/// Counts what is done with the values in a collection, as done with the field that it was found
/// by.
public interface FieldUse {
    /// A value of so many bytes was read.
    void read(long bytes);

    /// A value of so many bytes was written.
    void written(long bytes);
}
