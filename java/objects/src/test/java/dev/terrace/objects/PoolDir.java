package dev.terrace.objects;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/// A small pool in a directory of its own, in memory where there is a file system for that, which
/// goes when this is closed.
public final class PoolDir implements AutoCloseable {
    private static final Path MEMORY = Path.of("/dev/shm");

    private final Path directory;
    private final PoolOptions options;
    private Pool pool;

    /// With extents of the smallest size.
    public PoolDir() {
        this(PoolOptions.defaults().extents(1 << 20));
    }

    /// As these options say.
    public PoolDir(PoolOptions options) {
        this.options = options;
        try {
            directory =
                    Files.isWritable(MEMORY)
                            ? Files.createTempDirectory(MEMORY, "collections")
                            : Files.createTempDirectory("collections");
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        boolean done = false;
        try {
            pool = Pool.open(directory, options);
            done = true;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } finally {
            if (!done) {
                delete();
            }
        }
    }

    /// Where its files are.
    public Path directory() {
        return directory;
    }

    /// The pool.
    public Pool pool() {
        return pool;
    }

    /// The same pool, closed and opened again.
    public Pool reopen() {
        return reopen(options);
    }

    /// The same pool, closed and opened again with other options.
    public Pool reopen(PoolOptions others) {
        pool.close();
        try {
            pool = Pool.open(directory, others);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return pool;
    }

    @Override
    public void close() {
        pool.close();
        delete();
    }

    private void delete() {
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
