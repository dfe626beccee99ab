package dev.terrace.objects;

import java.util.List;

/// The accesses of a program to the objects of a pool.
///
/// @param nanos how long accesses were counted
/// @param classes the classes of the pool, by name
public record Profile(long nanos, List<ClassProfile> classes) {
    /// Checks that the time is not negative.
    public Profile {
        classes = List.copyOf(classes);
        if (nanos < 0) {
            throw new IllegalArgumentException("the time is negative");
        }
    }
}
