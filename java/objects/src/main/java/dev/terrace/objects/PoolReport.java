package dev.terrace.objects;

import java.util.List;
import java.util.Map;

/// What a look at all of a pool has found.
///
/// @param problems what is damaged, each with its place; none: the pool is sound
/// @param objects how many objects roots reach, by class
/// @param bytes what these take, with their strings and arrays, by class
/// @param leaked how many objects no root reaches, by class: [Pool#collect()] frees them
/// @param leakedBytes bytes that these take, with their strings and arrays
/// @param staleReferences how many references lead to objects that have been deleted
public record PoolReport(
        List<String> problems,
        Map<String, Long> objects,
        Map<String, Long> bytes,
        Map<String, Long> leaked,
        long leakedBytes,
        long staleReferences) {}
