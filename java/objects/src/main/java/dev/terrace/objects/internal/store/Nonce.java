package dev.terrace.objects.internal.store;

/// The nonce of a slot: the lower 16 bits of the number of commits before the one that wrote its
/// buffer. It tells the buffer from earlier and later ones in the same place.
final class Nonce {
    /// The bits of a slot that hold it.
    private static final int SHIFT = 8;

    /// A nonce comes again after so many commits.
    private static final long COUNT = 1 << 16;

    private Nonce() {}

    /// The nonce of a slot that is written when the sequence is this number, in its place.
    static long at(long sequence) {
        return (sequence >>> 1 & COUNT - 1) << SHIFT;
    }

    /// Whether no commit from one sequence to another may have written a buffer with the nonce of a
    /// slot that was there at the first.
    static boolean isUnique(long slot, long then, long now) {
        long first = then >>> 1;
        long nonce = slot >>> SHIFT & COUNT - 1;
        long next = first + 1 + (nonce - first - 1 & COUNT - 1);
        return now >>> 1 < next;
    }
}
