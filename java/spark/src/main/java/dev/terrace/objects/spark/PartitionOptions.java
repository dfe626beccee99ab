package dev.terrace.objects.spark;

import dev.terrace.objects.PoolOptions;
import java.io.Serial;
import java.io.Serializable;
import java.nio.file.Path;
import org.jspecify.annotations.Nullable;

/// How the pools of partitions are made, and where they lie.
///
/// @param pmem directory for the pools' files in persistent memory, on each node that has an
///   executor; null: beside the manifests, or, if those are on a remote file system, in the
///   system's directory for temporary files
/// @param disk directory for the pools' files on a disk; null: beside those in persistent memory
/// @param extentBytes by how much files grow, a power of two from 1 MiB to 1 GiB; no value is
///   larger
/// @param overwrite whether what is in the directory already is replaced
public record PartitionOptions(
        @Nullable String pmem, @Nullable String disk, long extentBytes, boolean overwrite)
        implements Serializable {
    @Serial private static final long serialVersionUID = 1L;

    private static final PartitionOptions DEFAULTS =
            new PartitionOptions(null, null, 4 << 20, false);

    /// Checks the directories and the number.
    public PartitionOptions {
        requireAbsolute("pmem", pmem);
        requireAbsolute("disk", disk);
        PoolOptions checked = PoolOptions.defaults().extents(extentBytes);
        assert checked != null;
    }

    private static void requireAbsolute(String option, @Nullable String directory) {
        if (directory != null && !Path.of(directory).isAbsolute()) {
            throw new IllegalArgumentException(
                    "option "
                            + option
                            + ": '"
                            + directory
                            + "' is not absolute, and executors have working directories of their"
                            + " own");
        }
    }

    /// Files beside the manifests, that grow by 4 MiB; nothing is replaced.
    public static PartitionOptions defaults() {
        return DEFAULTS;
    }

    /// The same, with files in persistent memory in this directory.
    public PartitionOptions pmem(String directory) {
        return new PartitionOptions(directory, disk, extentBytes, overwrite);
    }

    /// The same, with files on a disk in this directory.
    public PartitionOptions disk(String directory) {
        return new PartitionOptions(pmem, directory, extentBytes, overwrite);
    }

    /// The same, with files that grow by so much.
    public PartitionOptions extents(long bytes) {
        return new PartitionOptions(pmem, disk, bytes, overwrite);
    }

    /// The same, replacing what is there.
    public PartitionOptions overwriting() {
        return new PartitionOptions(pmem, disk, extentBytes, true);
    }
}
