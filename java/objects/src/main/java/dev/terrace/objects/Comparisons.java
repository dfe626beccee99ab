package dev.terrace.objects;

import dev.terrace.objects.internal.store.Comparand;
import org.jspecify.annotations.Nullable;

/// Compares texts and bytes with stored ones, without decoding those.
///
/// A search compares the same few texts with those of each object, so texts that were encoded last
/// are kept.
final class Comparisons {
    /// Longer texts are not kept, so they are encoded for each comparison.
    private static final int KEPT_CHARACTERS_MAX = 1 << 16;

    private static final int KEPT_MAX = 8;

    private final Fields fields;

    /// By their hashes. Threads may overwrite each other's; each is correct.
    private final @Nullable Encoded[] kept = new @Nullable Encoded[KEPT_MAX];

    /// An instance of a string, and the same as stored ones are compared with it.
    private record Encoded(String text, Comparand value) {}

    Comparisons(Fields fields) {
        this.fields = fields;
    }

    /// A text as stored ones are compared with it; null if it is too long to be stored.
    @Nullable Comparand of(String text) {
        int place = text.hashCode() & KEPT_MAX - 1;
        Encoded known = kept[place];
        if (known != null && isInstance(known.text, text)) {
            return known.value;
        }
        Comparand value = Comparand.ofText(text);
        if (value != null && text.length() <= KEPT_CHARACTERS_MAX) {
            kept[place] = new Encoded(text, value);
        }
        return value;
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
                        ? fields.slots().length(object, field) < 0 && isNullSought
                        : fields.slots().isEqual(object, field, value);
        if (object.pool().profiling() != null) {
            long length = value == null ? 0 : fields.slots().length(object, field);
            Profiling.read(object, field, Math.max(0, length));
        }
        return isEqual;
    }
}
