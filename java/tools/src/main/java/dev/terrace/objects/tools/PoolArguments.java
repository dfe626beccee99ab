package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.remote.HadoopSegments;
import dev.terrace.objects.store.Superblock;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/// Which pool, and how the answer is to look: what all subcommands are told.
final class PoolArguments {
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

    @Option(
            names = "--patience",
            paramLabel = "SECONDS",
            converter = PatienceConverter.class,
            description = "How long to try again while a program commits all the time; 10 without this option.")
    private Duration patience = Duration.ofSeconds(10);

    @Option(names = "--json", description = "Answers in JSON.")
    private boolean json;

    @Spec(Spec.Target.MIXEE)
    private CommandSpec command = CommandSpec.create();

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

    /// What `--patience` says.
    static final class PatienceConverter implements ITypeConverter<Duration> {
        @Override
        public Duration convert(String value) {
            if (!value.matches("[0-9]{1,9}")) {
                throw new TypeConversionException("'" + value + "' is no number of seconds");
            }
            return Duration.ofSeconds(Long.parseLong(value));
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
        if (disks.size() > Superblock.DISKS_MAX) {
            throw new ParameterException(command.commandLine(), "--disk: a pool has at most " + Superblock.DISKS_MAX + " disks");
        }
        PoolOptions options = PoolOptions.defaults().patience(patience);
        for (PoolOptions.Disk disk : disks) {
            options = options.disk(disk.tier(), Objects.requireNonNull(disk.directory()));
        }
        return options;
    }
}
