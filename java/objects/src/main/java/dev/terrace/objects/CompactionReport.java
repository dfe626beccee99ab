package dev.terrace.objects;

/// What a compaction has done.
///
/// @param valuesMoved how many values lie elsewhere on their tiers now
/// @param bytesMoved bytes that these have
/// @param chunksFreed how many chunks of 64 KiB are free for any size that were not before, those
///   of disks' files that got shorter included
/// @param bytesGivenBack by how many bytes files of disks, and segments of a remote tier, got less
public record CompactionReport(
        long valuesMoved, long bytesMoved, long chunksFreed, long bytesGivenBack) {}
