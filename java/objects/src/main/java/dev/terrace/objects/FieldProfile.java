package dev.terrace.objects;

import java.util.Objects;

/// The accesses of a program to a field of a class: F and B of the paper's section 3.4, for reads
/// and writes separately.
///
/// Whole values and single elements of an array are counted separately, because a device that is
/// not byte-addressable reads the whole array for each element.
///
/// For a field that leads to a collection, reads and writes count the strings, byte arrays and
/// other values of more than a word in it, without keys, and `bytesStored` is their sum: the
/// field's tiers apply to these values. Numbers in a collection are not counted.
///
/// @param field the field as the class defines it, with the tiers of its tags
/// @param reads values that were read as a whole, including arrays that were copied
/// @param writes values that were written as a whole
/// @param elementReads single elements that were read
/// @param elementWrites single elements that were written
/// @param bytesRead bytes of the values that `reads` counts
/// @param bytesWritten bytes of the values that `writes` counts
/// @param bytesStored bytes that the field takes in an object, without its slot in the record if
///   the value lies elsewhere; the mean over all objects, or over a sample
/// @param recomputations how often a missing value was computed by its `@Recompute` method
/// @param recomputeNanos how long all these computations took
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

    /// The number of all accesses: F.
    public long accesses() {
        return reads + writes + elementReads + elementWrites;
    }
}
