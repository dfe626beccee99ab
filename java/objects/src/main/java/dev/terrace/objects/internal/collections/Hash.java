package dev.terrace.objects.internal.collections;

import org.jspecify.annotations.Nullable;

/// The hash function of durable maps, which is a part of the format: see COLLECTIONS-FORMAT.md.
public final class Hash {
    private Hash() {}

    /// The hash of a key without a buffer: a number, a reference, or null.
    public static long of(long seed, long word) {
        return mix(seed ^ word);
    }

    /// The hash of a key.
    ///
    /// @param bytes the bytes of a string; null for other keys
    public static long of(long seed, long word, byte @Nullable [] bytes) {
        if (bytes == null) {
            return of(seed, word);
        }
        long hash = mix(seed ^ bytes.length);
        for (int i = 0; i < bytes.length; i += Long.BYTES) {
            long part = 0;
            for (int j = Math.min(bytes.length, i + Long.BYTES) - 1; j >= i; j--) {
                part = part << 8 | bytes[j] & 0xff;
            }
            hash = mix(hash ^ part);
        }
        return hash;
    }

    /// The last steps of SplitMix64.
    private static long mix(long value) {
        long x = (value ^ value >>> 30) * 0xbf58476d1ce4e5b9L;
        x = (x ^ x >>> 27) * 0x94d049bb133111ebL;
        return x ^ x >>> 31;
    }
}
