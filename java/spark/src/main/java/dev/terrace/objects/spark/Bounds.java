package dev.terrace.objects.spark;

import dev.terrace.objects.FieldKind;
import java.util.Arrays;
import org.jspecify.annotations.Nullable;

/// The keys of the least and the greatest value of a block, and of all blocks so far.
final class Bounds {
    private final boolean areNumbers;
    private boolean isEmpty = true;
    private long least;
    private long greatest;
    private byte[] leastBytes = {};
    private byte[] greatestBytes = {};
    private byte @Nullable [] leastOfAll;
    private byte @Nullable [] greatestOfAll;

    /// Whether a block had values of which no key is great enough.
    private boolean isUnbounded;

    private Bounds(boolean areNumbers) {
        this.areNumbers = areNumbers;
    }

    /// Of the values of a column; null if they have no order that is kept.
    static @Nullable Bounds of(ColumnLayout layout) {
        boolean areNumbers = !layout.isVariable();
        return areNumbers
                        || layout.kind() == FieldKind.BYTES
                                && OrderKeys.areBytesOrdered(layout.type())
                ? new Bounds(areNumbers)
                : null;
    }

    /// Takes a number of the order of long.
    void add(long number) {
        least = isEmpty ? number : Math.min(least, number);
        greatest = isEmpty ? number : Math.max(greatest, number);
        isEmpty = false;
    }

    /// Takes a value whose bytes are its key.
    void add(byte[] value) {
        if (isEmpty || OrderKeys.compare(value, leastBytes) < 0) {
            leastBytes = value.clone();
        }
        if (isEmpty || OrderKeys.compare(value, greatestBytes) > 0) {
            greatestBytes = value.clone();
        }
        isEmpty = false;
    }

    /// A key that no value of the block is less than; null if there is none.
    byte @Nullable [] min() {
        if (isEmpty) {
            return null;
        }
        return areNumbers ? OrderKeys.ofLong(least) : OrderKeys.floor(leastBytes);
    }

    /// A key that no value of the block is greater than; null if there is none.
    byte @Nullable [] max() {
        if (isEmpty) {
            return null;
        }
        return areNumbers ? OrderKeys.ofLong(greatest) : OrderKeys.ceiling(greatestBytes);
    }

    /// The block is complete.
    void next() {
        byte[] min = min();
        byte[] max = max();
        if (min != null && (leastOfAll == null || OrderKeys.compare(min, leastOfAll) < 0)) {
            leastOfAll = min;
        }
        isUnbounded |= !isEmpty && max == null;
        if (max != null && (greatestOfAll == null || OrderKeys.compare(max, greatestOfAll) > 0)) {
            greatestOfAll = max;
        }
        isEmpty = true;
    }

    byte @Nullable [] leastOfAll() {
        return leastOfAll == null ? null : Arrays.copyOf(leastOfAll, leastOfAll.length);
    }

    byte @Nullable [] greatestOfAll() {
        return greatestOfAll == null || isUnbounded
                ? null
                : Arrays.copyOf(greatestOfAll, greatestOfAll.length);
    }
}
