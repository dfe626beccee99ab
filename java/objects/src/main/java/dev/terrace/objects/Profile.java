package dev.terrace.objects;

import java.util.List;

/// What a program did with the objects of a pool.
///
/// @param nanos how long it was watched
/// @param classes that the pool knows, by name
public record Profile(long nanos, List<ClassProfile> classes) {
    /// Checks that the time is not negative.
    public Profile {
        classes = List.copyOf(classes);
        if (nanos < 0) {
            throw new IllegalArgumentException("the time is negative");
        }
    }
}
