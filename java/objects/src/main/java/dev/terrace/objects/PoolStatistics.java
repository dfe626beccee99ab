package dev.terrace.objects;

import java.util.List;

/// Counts of events since the pool was opened, and the space in use as of one commit.
///
/// @param commits transactions, and single words that were set on their own
/// @param rollbacks transactions that were rolled back
/// @param logBytes bytes written to the log
/// @param tiers the names of the tiers: `pmem`, then each disk, as `disk-0 ssd`, then `remote`, if
///   there is such a tier
/// @param used bytes in use on each of them
/// @param capacity bytes of the files of each of them; of the remote tier, of all segments
/// @param requests requests to the remote tier
public record PoolStatistics(
        long commits,
        long rollbacks,
        long logBytes,
        List<String> tiers,
        List<Long> used,
        List<Long> capacity,
        Requests requests) {
    /// Requests to the remote tier since the pool was opened.
    ///
    /// @param reads values that were read
    /// @param readBytes their bytes
    /// @param writes segments that were written
    /// @param writtenBytes their bytes
    /// @param cachedBytes bytes of the values that were read last, which are kept in memory
    public record Requests(
            long reads, long readBytes, long writes, long writtenBytes, long cachedBytes) {}
}
