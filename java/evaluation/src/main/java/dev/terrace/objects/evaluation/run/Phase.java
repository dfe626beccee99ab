package dev.terrace.objects.evaluation.run;

/// A phase that has ended.
///
/// @param name what was done
/// @param seconds how long it took, with the collections
/// @param gc collections meanwhile
public record Phase(String name, double seconds, GcPauses gc) {}
