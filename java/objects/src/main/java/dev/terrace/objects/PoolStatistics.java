package dev.terrace.objects;

import java.util.List;

/// What has happened since a pool was opened, and what is in use.
///
/// @param commits transactions, and single words that were set on their own
/// @param rollbacks transactions that were given up
/// @param logBytes what went through the log
/// @param used bytes in use: in persistent memory, then on each disk, then on the remote tier, if
///   there is one
/// @param capacity bytes of the files: in persistent memory, then of each disk, then of all
///   segments
public record PoolStatistics(
        long commits, long rollbacks, long logBytes, List<Long> used, List<Long> capacity) {}
