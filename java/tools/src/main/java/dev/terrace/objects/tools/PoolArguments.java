package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.remote.HadoopSegments;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.function.UnaryOperator;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.ITypeConverter;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.TypeConversionException;

/// The arguments of all subcommands on pools: the pool, and the form of the answer.
final class PoolArguments {
    @Parameters(paramLabel = "POOL", description = "The pool's directory.")
    private Path pool = Path.of("");

    @Mixin private TierArguments tiers = new TierArguments();

    @Option(
            names = "--patience",
            paramLabel = "SECONDS",
            converter = PatienceConverter.class,
            description =
                    "How long to try again while a program commits all the time; 10 without this"
                            + " option.")
    private Duration patience = Duration.ofSeconds(10);

    @Option(names = "--json", description = "Answers in JSON.")
    private boolean json;

    /// Converts the value of `--patience`.
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
        return open(PoolOptions::toRead);
    }

    /// Opens the pool to write.
    Opened openToWrite() throws IOException {
        return open(PoolOptions::existing);
    }

    private Opened open(UnaryOperator<PoolOptions> how) throws IOException {
        return tiers.use((options, segments) ->
                new Opened(Pool.open(pool, how.apply(options.patience(patience))), segments));
    }
}
