package dev.terrace.objects.evaluation.graph;

/// The bytes in use of people that are stored.
///
/// @param pmem in persistent memory
/// @param records those of them in the people's records; 0 if there are none
/// @param disk on disk
record Stored(long pmem, long records, long disk) {
    static final Stored NOTHING = new Stored(0, 0, 0);
}
