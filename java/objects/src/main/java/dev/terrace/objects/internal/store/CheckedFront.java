package dev.terrace.objects.internal.store;

/// The two words before the bytes of a checked value: the length and CRC-32C of the bytes, and a
/// *seal*, which is computed from that word, from the slot that leads there, and from the pool.
///
/// The slot contains the place and, in its nonce, the commit. Therefore zeros, earlier values of
/// the place, and values of other places or pools have another seal, even if their own bytes and
/// checksums are right.
///
/// Invariant: two different words with the same slot have different seals, and so do two different
/// slots with the same word.
final class CheckedFront {
    /// Bytes of both.
    static final int BYTES = 2 * Long.BYTES;

    private static final int CRC_SHIFT = 32;
    private static final long FACTOR_1 = 0xff51afd7ed558ccdL;
    private static final long FACTOR_2 = 0xc4ceb9fe1a85ec53L;

    private CheckedFront() {}

    /// The word of a length and a checksum.
    static long word(int length, int crc) {
        return (long) crc << CRC_SHIFT | length;
    }

    static int length(long word) {
        return (int) word;
    }

    static int crc(long word) {
        return (int) (word >>> CRC_SHIFT);
    }

    /// The seal of a word that a slot leads to.
    static long seal(long secret, long slot, long word) {
        return mixed(mixed(word ^ secret) ^ slot);
    }

    /// The word at `at` of a region, that a slot leads to.
    ///
    /// @throws StoreFailure.Damaged if it has another seal
    static long require(Region region, long at, long secret, long slot) {
        long word = region.getLong(at);
        if (region.getLong(at + Long.BYTES) != seal(secret, slot, word)) {
            throw new StoreFailure.Damaged(
                    region.name()
                            + ": the value at offset "
                            + at
                            + " is damaged, or not the one that was stored there last");
        }
        return word;
    }

    /// A bijection whose result bits each depend on all bits of the number.
    private static long mixed(long number) {
        long bits = (number ^ number >>> 33) * FACTOR_1;
        bits = (bits ^ bits >>> 33) * FACTOR_2;
        return bits ^ bits >>> 33;
    }
}
