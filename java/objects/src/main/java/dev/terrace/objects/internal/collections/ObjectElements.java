package dev.terrace.objects.internal.collections;

import java.util.List;

/// Objects of a class, as elements of collections.
public interface ObjectElements {
    /// The class, fully qualified.
    String name();

    /// Names that it had before.
    List<String> formerly();

    /// The reference of an object.
    long reference(Object element);

    /// Throws if an object cannot be an element of a collection in this heap.
    void requireFor(Heap heap, Object element);

    /// A handle of the object that a reference leads to.
    Object handle(Heap heap, long reference);
}
