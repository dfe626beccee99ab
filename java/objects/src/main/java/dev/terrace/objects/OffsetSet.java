package dev.terrace.objects;

import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;

/// A set of offsets at which things begin, in a pool of any size.
final class OffsetSet {
    private static final int GRANULE_SHIFT = 4;

    /// Bytes of the pool that one bit set is for, as a logarithm.
    private static final int PART_SHIFT = 30;

    private final Map<Long, BitSet> parts = new HashMap<>();

    private static int bit(long offset) {
        return (int) (offset & (1L << PART_SHIFT) - 1) >>> GRANULE_SHIFT;
    }

    /// Adds an offset; whether it was not there.
    boolean add(long offset) {
        BitSet part = parts.computeIfAbsent(offset >>> PART_SHIFT, _ -> new BitSet());
        boolean isNew = !part.get(bit(offset));
        part.set(bit(offset));
        return isNew;
    }

    boolean contains(long offset) {
        BitSet part = parts.get(offset >>> PART_SHIFT);
        return part != null && part.get(bit(offset));
    }
}
