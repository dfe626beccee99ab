package dev.terrace.objects.internal.store;

/// The first word of each slot and run in persistent memory: generation (24 bits), type (16 bits),
/// mark (24 bits).
///
/// Invariant: a slot's generation never falls. A freed slot gets the next generation; a slot with
/// the last generation is never used again. The mark depends on the place and on the pool's secret,
/// so that no user data look like a valid header in that place.
public final class Headers {
    /// The last generation: its slot is not used again.
    static final int GENERATION_MAX = (1 << 24) - 1;

    /// The type of freed slots and runs.
    static final int FREE = 0;

    /// The type of a buffer: the bytes of a string or an array.
    static final int BUFFER = 0xffff;

    /// The type of the record of a value on the remote tier.
    static final int VALUE = 0xfffe;

    /// The type of the record of a segment of the remote tier.
    static final int SEGMENT = 0xfffd;

    /// Bytes of a header.
    public static final int BYTES = 8;

    private Headers() {}

    /// The header for `offset`.
    static long of(long secret, long offset, int type, int generation) {
        return mark(secret, offset) << 40 | (long) type << 24 | generation;
    }

    private static long mark(long secret, long offset) {
        return ((offset ^ secret) * 0x9e3779b97f4a7c15L ^ secret) >>> 40;
    }

    /// Whether a header is valid at `offset`.
    static boolean belongs(long secret, long offset, long header) {
        return header >>> 40 == mark(secret, offset);
    }

    static int generation(long header) {
        return (int) header & GENERATION_MAX;
    }

    /// What begins where this header is: of a class, or of something that the library keeps.
    public static int type(long header) {
        return (int) (header >>> 24) & 0xffff;
    }
}
