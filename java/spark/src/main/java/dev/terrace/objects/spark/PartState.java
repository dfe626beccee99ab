package dev.terrace.objects.spark;

import org.jspecify.annotations.Nullable;

/// A part as far as commits may meet: two manifests with the same state of it have the same rows of
/// it.
///
/// @param part its name
/// @param deletions its deleted rows; null: none is
record PartState(String part, @Nullable Deletions deletions) {
    static PartState of(Part part) {
        return new PartState(part.name(), part.deletions());
    }
}
