package dev.terrace.objects;

/// A handle of one record alone: of an object without its extensions, or of one of these.
final class Part extends DurableObject {
    /// Of what begins at an offset, in the form that a mapping is of.
    static Part at(Pool pool, TypeMapping mapping, long record, long header) {
        Part part = new Part();
        part.bind(pool, mapping, record, header);
        return part;
    }
}
