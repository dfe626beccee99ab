package dev.terrace.objects.internal.store;

import dev.terrace.objects.PoolDamagedException;

/// The two words before the bytes of a checked value: length and CRC-32C of the bytes, and a *seal*
/// of that word, of the slot that leads there, and of the pool.
///
/// The slot names the place and, by its nonce, the commit. So zeros, what lay there before, and
/// what lies elsewhere or in another pool have another seal, also where their own bytes and
/// checksums are right.
///
/// Invariant: for one slot, each other word has another seal; for one word, each other slot has.
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
    /// @throws PoolDamagedException if it has another seal
    static long require(Region region, long at, long secret, long slot) {
        long word = region.getLong(at);
        if (region.getLong(at + Long.BYTES) != seal(secret, slot, word)) {
            throw new PoolDamagedException(
                    region.name()
                            + ": the value at offset "
                            + at
                            + " is damaged, or not the one that was stored there last");
        }
        return word;
    }

    /// Other bits for each other number: each of them depends on all of it.
    private static long mixed(long number) {
        long bits = (number ^ number >>> 33) * FACTOR_1;
        bits = (bits ^ bits >>> 33) * FACTOR_2;
        return bits ^ bits >>> 33;
    }
}
