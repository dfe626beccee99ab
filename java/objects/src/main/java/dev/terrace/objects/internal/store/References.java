package dev.terrace.objects.internal.store;

/// A reference says where a record begins, and which of those that have been there it is: the
/// generation of its header (24 bits), and its offset by 16 (40 bits). No two records of a pool
/// ever have the same.
public final class References {
    private static final int GENERATION_SHIFT = 40;
    private static final int GRANULE_SHIFT = 4;

    private References() {}

    /// The reference of the record at an offset, which has this header.
    public static long of(long record, long header) {
        return (long) Headers.generation(header) << GENERATION_SHIFT | record >>> GRANULE_SHIFT;
    }

    /// Where the record begins that a reference leads to.
    public static long recordOf(long reference) {
        return (reference & (1L << GENERATION_SHIFT) - 1) << GRANULE_SHIFT;
    }

    /// Whether what has this header is what a reference leads to.
    public static boolean leadsTo(long reference, long header) {
        return Headers.generation(header) == reference >>> GENERATION_SHIFT
                && Headers.type(header) != Headers.FREE;
    }
}
