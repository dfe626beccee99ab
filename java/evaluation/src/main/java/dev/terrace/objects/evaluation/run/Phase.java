package dev.terrace.objects.evaluation.run;

/// A phase that has ended.
///
/// @param name what was done
/// @param seconds how long it took, with the collections
/// @param cpuSeconds what all threads of the process took of the processors meanwhile: more than
///   `seconds` if several were at work, and what counts where others are on the machine, too
/// @param gc collections meanwhile
public record Phase(String name, double seconds, double cpuSeconds, GcPauses gc) {}
