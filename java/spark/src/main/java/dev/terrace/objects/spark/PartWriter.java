package dev.terrace.objects.spark;

import dev.terrace.objects.Pool;
import java.io.IOException;
import java.nio.file.Files;
import java.util.List;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.jspecify.annotations.Nullable;

/// The pool that an attempt of a task writes. It is of use only if the driver commits it, so each
/// attempt has its own.
final class PartWriter {
    private final String name;
    private final PartStore.Place place;
    private final PartitionOptions options;
    private final @Nullable Storage remote;
    private final Pool pool;
    private boolean closed;

    /// Makes the pool.
    ///
    /// @param remote where its files are brought when it is finished; null: they stay where they
    ///   are
    PartWriter(
            String name, PartStore.Place place, PartitionOptions options, @Nullable Storage remote)
            throws IOException {
        this.name = name;
        this.place = place;
        this.options = options;
        this.remote = remote;
        boolean done = false;
        try {
            if (place.disk() != null) {
                Files.createDirectories(place.disk());
            }
            pool = Pool.open(place.pool(), place.options(options));
            done = true;
        } finally {
            if (!done) {
                place.delete();
            }
        }
    }

    Pool pool() {
        return pool;
    }

    /// Seals and closes the pool, and brings its files to where they are to be: who reads them may
    /// be another node.
    Part finish(long rows, List<ColumnSummary> columns) throws IOException {
        long bytes = pool.statistics().used().stream().mapToLong(Long::longValue).sum();
        pool.seal();
        close();
        if (remote != null) {
            upload(remote);
            place.delete();
        } else {
            place.syncNames();
        }
        boolean staysHere = remote == null;
        return new Part(
                name,
                staysHere ? options.pmem() : null,
                staysHere ? options.disk() : null,
                Hosts.local(),
                rows,
                bytes,
                columns);
    }

    private void upload(Storage to) throws IOException {
        for (java.nio.file.Path file : LocalCopies.files(place)) {
            try (FSDataOutputStream out =
                    to.files()
                            .create(
                                    new Path(to.directory(), file.getFileName().toString()),
                                    false)) {
                Files.copy(file, out);
                Storage.sync(out);
            }
        }
    }

    /// Removes all files that were written. Files that cannot be removed are left to the driver, so
    /// that a second failure does not hide why the attempt failed.
    void abandon() {
        close();
        try {
            place.delete();
            if (remote != null) {
                remote.delete();
            }
        } catch (IOException left) {
            // As said above.
        }
    }

    private void close() {
        if (!closed) {
            closed = true;
            pool.close();
        }
    }
}
