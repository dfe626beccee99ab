package dev.terrace.objects;

import dev.terrace.objects.internal.store.Comparand;
import org.jspecify.annotations.Nullable;

/// Compares texts and bytes with stored ones, without decoding those.
///
/// A search compares the same text with that of each object, so the text that was encoded last is
/// kept.
final class Comparisons {
    /// Longer texts are not kept.
    private static final int KEPT_CHARACTERS_MAX = 1024;

    private final Fields fields;

    /// Threads may overwrite each other's; each is correct.
    private @Nullable Encoded last;

    /// An instance of a string, and the same as stored ones are compared with it.
    private record Encoded(String text, Comparand value) {}

    Comparisons(Fields fields) {
        this.fields = fields;
    }

    /// A text as stored ones are compared with it; null if it is too long to be stored.
    @Nullable Comparand of(String text) {
        Encoded known = last;
        if (known != null && isInstance(known.text, text)) {
            return known.value;
        }
        Comparand value = Comparand.ofText(text);
        if (value != null && text.length() <= KEPT_CHARACTERS_MAX) {
            last = new Encoded(text, value);
        }
        return value;
    }

    /// Whether a field of a fixed length that has a slot can hold these bytes in no other way than
    /// behind the slot: it is null as long as all bytes are zero.
    static boolean isOnlyInSlot(byte @Nullable [] bytes, int length) {
        if (bytes == null || bytes.length != length) {
            return false;
        }
        for (byte each : bytes) {
            if (each != 0) {
                return true;
            }
        }
        return false;
    }

    @SuppressWarnings("ReferenceEquality") // A look at the characters would take as long again.
    private static boolean isInstance(String one, String other) {
        return one == other;
    }

    /// Compares on the slow path, and counts that as a read.
    ///
    /// @param value null: no stored value is equal to it, unless null is sought
    boolean isEqual(
            DurableObject object, int field, boolean isNullSought, @Nullable Comparand value) {
        boolean isEqual =
                value == null
                        ? fields.getSlotLength(object, field) < 0 && isNullSought
                        : fields.isSlotEqual(object, field, value);
        Profiling.read(object, field, value == null ? 0L : value.length());
        return isEqual;
    }
}
