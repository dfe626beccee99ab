package dev.terrace.objects;

/// The result of a compaction.
///
/// @param valuesMoved how many values were moved to another place on their tiers
/// @param bytesMoved bytes of these values
/// @param chunksFreed how many more chunks of 64 KiB are free for values of any size, including
///   chunks by which files of disks became shorter
/// @param bytesGivenBack by how many bytes the files of disks and the segments of a remote tier
///   have shrunk
public record CompactionReport(
        long valuesMoved, long bytesMoved, long chunksFreed, long bytesGivenBack) {}
