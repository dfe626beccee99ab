package dev.terrace.objects;

import java.util.Objects;

/// What a program did with a field of a class: F and B of the paper's section 3.4, reads and writes
/// apart.
///
/// Whole values and single elements of an array are counted apart, since a device that has no bytes
/// to address reads the whole array for each of its elements.
///
/// Of a field that leads to a collection, reads and writes are those of the texts and bytes in it,
/// keys not counted, and `bytesStored` is the sum of them: these are what the field's tiers are
/// for. A number in a collection is none of them.
///
/// @param field as the class has it, with the tiers that its tags name
/// @param reads values that were read as a whole, also by copying them into an array
/// @param writes values that were written as a whole
/// @param elementReads single elements that were read
/// @param elementWrites single elements that were written
/// @param bytesRead bytes of the values that `reads` counts
/// @param bytesWritten bytes of the values that `writes` counts
/// @param bytesStored bytes that the field takes in an object, its slot or place in the record not
///   counted if the value lies elsewhere; the mean over the objects there are, or over a sample of
///   them
/// @param recomputations how often a value that was not there was computed by its `@Recompute`
///   method
/// @param recomputeNanos how long all these took
public record FieldProfile(
        FieldSpec field,
        long reads,
        long writes,
        long elementReads,
        long elementWrites,
        long bytesRead,
        long bytesWritten,
        double bytesStored,
        long recomputations,
        long recomputeNanos) {

    /// Checks that no count is negative.
    public FieldProfile {
        Objects.requireNonNull(field);
        long all =
                reads
                        | writes
                        | elementReads
                        | elementWrites
                        | bytesRead
                        | bytesWritten
                        | recomputations
                        | recomputeNanos;
        if (all < 0 || !(bytesStored >= 0)) {
            throw new IllegalArgumentException("field " + field.name() + ": a count is negative");
        }
    }

    /// How often it was accessed in all: F.
    public long accesses() {
        return reads + writes + elementReads + elementWrites;
    }
}
