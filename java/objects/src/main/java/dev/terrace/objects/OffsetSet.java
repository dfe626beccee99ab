package dev.terrace.objects;

import java.util.BitSet;
import java.util.HashMap;
import java.util.Map;

/// A set of offsets of records and values, in a pool of any size.
final class OffsetSet {
    private static final int GRANULE_SHIFT = 4;

    /// The bytes of the pool for each bit set, as a logarithm.
    private static final int PART_SHIFT = 30;

    private final Map<Long, BitSet> parts = new HashMap<>();

    private static int bit(long offset) {
        return (int) (offset & (1L << PART_SHIFT) - 1) >>> GRANULE_SHIFT;
    }

    /// Adds an offset, and returns whether it is new.
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
