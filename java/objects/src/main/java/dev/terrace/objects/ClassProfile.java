package dev.terrace.objects;

import java.util.List;
import java.util.Objects;

/// The accesses of a program to the fields of a class.
///
/// @param name the tagged class, fully qualified
/// @param objects how many objects of it the pool had when the profile was taken: X of the paper's
///   section 3.4
/// @param fields its fields, in the order in which the class has them
public record ClassProfile(String name, long objects, List<FieldProfile> fields) {
    /// Checks that the number is not negative.
    public ClassProfile {
        Objects.requireNonNull(name);
        fields = List.copyOf(fields);
        if (objects < 0) {
            throw new IllegalArgumentException(name + ": a count is negative");
        }
    }
}
