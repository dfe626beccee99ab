package dev.terrace.objects.spark;

import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
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

    static Set<PartState> of(List<Part> parts) {
        return parts.stream().map(PartState::of).collect(Collectors.toSet());
    }

    /// Those of a manifest's parts that matter.
    static Set<PartState> of(Manifest manifest, Predicate<Part> matters) {
        return of(manifest.parts().stream().filter(matters).toList());
    }
}
