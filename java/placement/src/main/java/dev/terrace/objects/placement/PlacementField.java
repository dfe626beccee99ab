package dev.terrace.objects.placement;

import java.util.List;

/// A field whose place is to be found.
///
/// @param name which one
/// @param isTagged whether a tag says where it lies. None does for references to objects, and the
///   mark that says whether an embedded object is there
/// @param choices what each of the problem's devices would mean for it, in their order
public record PlacementField(FieldName name, boolean isTagged, List<Choice> choices) {
    /// Copies the choices.
    public PlacementField {
        choices = List.copyOf(choices);
    }
}
