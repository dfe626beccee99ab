package dev.terrace.objects.arrow;

/// The ways in which Arrow writes record batches down (its IPC formats).
public enum ArrowFormat {
    /// A file, whose batches can be read in any order: Feather, version 2.
    FILE,
    /// A stream, whose batches are read one after the other.
    STREAM
}
