package dev.terrace.objects.bench;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/// Texts in persistent memory, with checksums and without.
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(2)
public class ChecksumBench {
    private static final int COUNT = 1 << 10;

    /// Whether the pool has values in persistent memory carry checksums.
    @Param({"false", "true"})
    public boolean checked;

    /// Characters of a text, of a byte each.
    @Param({"40", "400", "4000"})
    public int length;

    private Path directory = Path.of("");
    private Pool pool;
    private DurableSample[] samples = {};
    private String text = "";
    private int next;

    /// Makes the pool.
    @Setup
    public void setUp() throws IOException {
        directory = Samples.directory(false);
        PoolOptions options = PoolOptions.defaults();
        pool = Pool.open(directory, checked ? options.withPmemChecksums() : options);
        samples = Samples.fill(pool, COUNT);
        text = "x".repeat(length);
        for (DurableSample sample : samples) {
            sample.setText(text);
        }
    }

    /// Removes it.
    @TearDown
    public void tearDown() throws IOException {
        pool.close();
        Samples.delete(directory);
    }

    private DurableSample next() {
        return samples[next++ & COUNT - 1];
    }

    /// Reads a text.
    @Benchmark
    public int get() {
        return Objects.requireNonNull(next().getText()).length();
    }

    /// Writes a text, in a transaction of its own.
    @Benchmark
    public void set() {
        next().setText(text);
    }
}
