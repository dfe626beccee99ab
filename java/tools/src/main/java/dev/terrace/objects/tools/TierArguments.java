package dev.terrace.objects.tools;

import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.remote.HadoopSegments;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Path;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import picocli.CommandLine.TypeConversionException;

/// The tiers of a pool besides persistent memory.
final class TierArguments {
    @Option(
            names = "--disk",
            paramLabel = "TIER=DIR",
            converter = DiskConverter.class,
            description =
                    "A disk of the pool: ssd or hdd, and its directory; in the order in which"
                            + " programs name them. Without this option: an SSD in the pool's"
                            + " directory.")
    private List<PoolOptions.Disk> disks = List.of();

    @Option(
            names = "--remote",
            paramLabel = "URI",
            description =
                    "The directory of the pool's remote tier, in any file system that Hadoop knows:"
                            + " hdfs://host/dir, file:///dir.")
    private @Nullable URI remote;

    @Spec(Spec.Target.MIXEE)
    private CommandSpec command = CommandSpec.create();

    /// Converts the value of `--disk`.
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
            return new PoolOptions.Disk(
                    storageTier, Path.of(value.substring(equals + 1)), Long.MAX_VALUE);
        }
    }

    /// Work on a pool with these tiers.
    ///
    /// @param <T> what comes of it
    @FunctionalInterface
    interface Use<T> {
        /// Does it, with options and the remote tier, which stays open until whoever was given it
        /// closes it.
        T with(PoolOptions options, @Nullable HadoopSegments segments) throws IOException;
    }

    /// Does something with these tiers. If it fails the remote tier is closed.
    <T> T use(Use<T> use) throws IOException {
        PoolOptions options = options();
        if (remote == null) {
            return use.with(options, null);
        }
        HadoopSegments segments = HadoopSegments.open(remote);
        boolean done = false;
        try {
            T result = use.with(options.remote(segments), segments);
            done = true;
            return result;
        } finally {
            if (!done) {
                segments.close();
            }
        }
    }

    private PoolOptions options() {
        if (disks.size() > PoolOptions.DISKS_MAX) {
            throw new ParameterException(
                    command.commandLine(),
                    "--disk: a pool has at most " + PoolOptions.DISKS_MAX + " disks");
        }
        PoolOptions options = PoolOptions.defaults();
        for (PoolOptions.Disk disk : disks) {
            options = options.disk(disk.tier(), Objects.requireNonNull(disk.directory()));
        }
        return options;
    }
}
