package dev.terrace.objects;

import dev.terrace.objects.internal.store.Buffers;
import org.jspecify.annotations.Nullable;

/// The value of a group as a handle has read it.
///
/// @param slot what the slot held
/// @param sequence the number of the commit before it was read
/// @param value the value; nobody changes it
record KeptGroup(long slot, long sequence, byte @Nullable [] value) {
    /// Whether a slot still leads to this value.
    boolean isOf(long otherSlot, Buffers buffers) {
        return slot == otherSlot && buffers.isSameSince(sequence);
    }
}
