package dev.terrace.objects.collections;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;

/// A small pool in a directory of its own, in memory where there is a file system for that, which goes when this is closed.
final class PoolDir implements AutoCloseable {
    private static final Path MEMORY = Path.of("/dev/shm");

    private final Path directory;
    private final PoolOptions options;
    private Pool pool;

    PoolDir() {
        this(PoolOptions.defaults().extents(1 << 20));
    }

    PoolDir(PoolOptions options) {
        this.options = options;
        try {
            directory = Files.isWritable(MEMORY)
                    ? Files.createTempDirectory(MEMORY, "collections")
                    : Files.createTempDirectory("collections");
            pool = Pool.open(directory, options);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    Pool pool() {
        return pool;
    }

    /// The same pool, closed and opened again.
    Pool reopen() {
        pool.close();
        try {
            pool = Pool.open(directory, options);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return pool;
    }

    @Override
    public void close() {
        pool.close();
        try (Stream<Path> files = Files.walk(directory)) {
            files.sorted(Comparator.reverseOrder()).map(Path::toFile).forEach(File::delete);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
