package dev.terrace.objects.evaluation.run;

/// The result of a process.
///
/// @param result of its work
/// @param memory that it took
/// @param <R> the work's result
public record Outcome<R>(R result, Memory memory) {}
