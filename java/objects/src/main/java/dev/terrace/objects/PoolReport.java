package dev.terrace.objects;

import java.util.List;
import java.util.Map;

/// The result of checking a whole pool.
///
/// @param problems the damage, each with its place; if there is none, the pool is sound
/// @param objects the number of objects that roots reach, by class
/// @param bytes the bytes of these objects, with their strings and arrays, by class
/// @param leaked the number of objects that no root reaches, by class: [Pool#collect()] frees them
/// @param leakedBytes the bytes of these objects, with their strings and arrays
/// @param staleReferences the number of references to deleted objects
public record PoolReport(
        List<String> problems,
        Map<String, Long> objects,
        Map<String, Long> bytes,
        Map<String, Long> leaked,
        long leakedBytes,
        long staleReferences) {}
