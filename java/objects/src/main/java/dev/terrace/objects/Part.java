package dev.terrace.objects;

/// A handle of a single record: of an object without its extensions, or of one extension.
final class Part extends DurableObject {
    /// The record at an offset, in the form of a mapping.
    static Part at(Pool pool, TypeMapping mapping, long record, long header) {
        Part part = new Part();
        part.bind(mapping, record, header);
        return part;
    }
}
