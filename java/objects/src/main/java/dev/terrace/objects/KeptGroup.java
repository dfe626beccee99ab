package dev.terrace.objects;

import dev.terrace.objects.internal.store.Buffers;
import org.jspecify.annotations.Nullable;

/// The value of a group as a handle has read it. Long values are not kept, so that handles stay
/// small.
///
/// @param slot what the slot held
/// @param sequence the number of the commit before it was read
/// @param value the value; nobody changes it
record KeptGroup(long slot, long sequence, byte @Nullable [] value) {
    /// The greatest length of a value that is kept.
    private static final int BYTES_MAX = 1024;

    /// Whether a value is short enough to be kept.
    static boolean isFor(byte @Nullable [] value) {
        return value == null || value.length <= BYTES_MAX;
    }

    /// Whether a slot still leads to this value.
    boolean isOf(long otherSlot, Buffers buffers) {
        return slot == otherSlot && buffers.isSameSince(slot, sequence);
    }
}
