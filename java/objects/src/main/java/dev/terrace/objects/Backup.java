package dev.terrace.objects;

import java.time.Instant;
import java.util.UUID;

/// A backup: a pool as of one commit.
///
/// @param number its number among the backups of its directory
/// @param time when it was made
/// @param pool the identity of the pool
/// @param commit the number of the pool's last commit
/// @param bytes bytes of the pool's files
/// @param bytesStored bytes that no earlier backup had, and that this one has stored
public record Backup(
        long number, Instant time, UUID pool, long commit, long bytes, long bytesStored) {}
