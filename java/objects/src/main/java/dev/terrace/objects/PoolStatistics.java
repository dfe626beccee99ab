package dev.terrace.objects;

import java.util.List;

/// Counts of events since a pool was opened, and the space in use.
///
/// @param commits transactions, and single words that were set on their own
/// @param rollbacks transactions that were rolled back
/// @param logBytes bytes written to the log
/// @param used bytes in use: in persistent memory, on each disk, and on the remote tier, if there
///   is one
/// @param capacity bytes of the files: in persistent memory, of each disk, and of all segments
public record PoolStatistics(
        long commits, long rollbacks, long logBytes, List<Long> used, List<Long> capacity) {}
