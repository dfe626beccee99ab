package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.remote.HadoopSegments;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.TypeConversionException;

/// Which pool, and how the answer is to look: what all subcommands are told.
final class PoolArguments {
    private static final int ATTEMPTS_MAX = 100;

    @Parameters(paramLabel = "POOL", description = "The pool's directory.")
    private Path pool = Path.of("");

    @Option(
            names = "--disk",
            paramLabel = "TIER=DIR",
            converter = DiskConverter.class,
            description = "A disk of the pool: ssd or hdd, and its directory; in the order in which programs name them."
                    + " Without this option: an SSD in the pool's directory.")
    private List<PoolOptions.Disk> disks = List.of();

    @Option(
            names = "--remote",
            paramLabel = "URI",
            description = "The directory of the pool's remote tier, in any file system that Hadoop knows: hdfs://host/dir, file:///dir.")
    private @Nullable URI remote;

    @Option(names = "--json", description = "Answers in JSON.")
    private boolean json;

    /// What `--disk` says.
    static final class DiskConverter implements ITypeConverter<PoolOptions.Disk> {
        @Override
        public PoolOptions.Disk convert(String value) {
            int equals = value.indexOf('=');
            String tier = equals < 0 ? "" : value.substring(0, equals);
            boolean isHdd = tier.equalsIgnoreCase("hdd");
            if (equals == value.length() - 1 || !isHdd && !tier.equalsIgnoreCase("ssd")) {
                throw new TypeConversionException("'" + value + "' is not ssd=DIR or hdd=DIR");
            }
            StorageTier storageTier = isHdd ? StorageTier.HDD : StorageTier.SSD;
            return new PoolOptions.Disk(storageTier, Path.of(value.substring(equals + 1)), Long.MAX_VALUE);
        }
    }

    boolean isJson() {
        return json;
    }

    /// An open pool, and what it needs.
    record Opened(Pool pool, @Nullable HadoopSegments segments) implements AutoCloseable {
        @Override
        public void close() throws IOException {
            pool.close();
            if (segments != null) {
                segments.close();
            }
        }
    }

    /// Opens the pool, which another process may be writing to.
    Opened openToRead() throws IOException {
        return open(options().toRead());
    }

    /// Opens the pool to write.
    Opened openToWrite() throws IOException {
        return open(options().existing());
    }

    private Opened open(PoolOptions options) throws IOException {
        if (remote == null) {
            return new Opened(Pool.open(pool, options), null);
        }
        HadoopSegments segments = HadoopSegments.open(remote);
        boolean done = false;
        try {
            Opened opened = new Opened(Pool.open(pool, options.remote(segments)), segments);
            done = true;
            return opened;
        } finally {
            if (!done) {
                segments.close();
            }
        }
    }

    private PoolOptions options() {
        PoolOptions options = PoolOptions.defaults();
        for (PoolOptions.Disk disk : disks) {
            options = options.disk(disk.tier(), java.util.Objects.requireNonNull(disk.directory()));
        }
        return options;
    }

    /// Runs `work`, which looks at all of a pool, so that it sees one committed state.
    ///
    /// @throws BusyException if another process commits so often that there is no time for it
    static <T> T readAll(Pool pool, Supplier<T> work) {
        int[] attempts = {0};
        return pool.read(() -> {
            if (++attempts[0] > ATTEMPTS_MAX) {
                throw new BusyException("another process writes to the pool all the time, so it was never the same from the first "
                        + "byte to the last: repeat this when less is written");
            }
            return work.get();
        });
    }
}
