package dev.terrace.objects.bench;

import dev.terrace.objects.Pool;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/// How long it takes from a closed pool to the first value that is read from it.
@State(Scope.Thread)
@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Warmup(iterations = 5)
@Measurement(iterations = 10)
@Fork(2)
public class ReopenBench {
    private static final int EXTENT_BYTES = 64 << 20;
    private static final String ROOT = "first";

    /// How many objects there are.
    @Param({"100000", "1000000"})
    public int objects = 100_000;

    /// How the pool was left: closed, or by a process that was killed in the middle of its
    /// transactions.
    @Param({"closed", "killed"})
    public String left = "closed";

    /// Where it lies: in memory that stands in for persistent memory, or on a disk of whose files
    /// the system has nothing in memory.
    @Param({"memory", "cold disk"})
    public String lies = "memory";

    private Path original = Path.of("");
    private Path directory = Path.of("");
    private Pool pool;

    /// Makes the pool.
    @Setup
    public void setUp() throws IOException {
        boolean onDisk = lies.equals("cold disk");
        original = Samples.directory(onDisk);
        directory = Samples.directory(onDisk);
        try (Pool made = Samples.open(original, EXTENT_BYTES)) {
            made.root(ROOT, DurableSample.TYPE).set(Samples.fill(made, objects)[0]);
        }
        if (left.equals("killed")) {
            KilledWriter.run(original);
        }
    }

    /// Has the files as they were left.
    @Setup(Level.Invocation)
    public void copy() throws IOException {
        try (var files = Files.newDirectoryStream(original)) {
            for (Path file : files) {
                Files.copy(
                        file,
                        directory.resolve(file.getFileName()),
                        StandardCopyOption.REPLACE_EXISTING);
            }
        }
        if (lies.equals("cold disk")) {
            forgetCaches();
        }
    }

    /// Has the system keep nothing of files in memory. Only root may.
    private void forgetCaches() throws IOException {
        try (var files = Files.newDirectoryStream(directory)) {
            for (Path file : files) {
                try (FileChannel channel = FileChannel.open(file, StandardOpenOption.WRITE)) {
                    channel.force(true);
                }
            }
        }
        Files.writeString(Path.of("/proc/sys/vm/drop_caches"), "3");
    }

    /// Opens the pool, and reads a value.
    @Benchmark
    public int open() throws IOException {
        pool = Samples.open(directory, EXTENT_BYTES);
        return first(pool).getNumber();
    }

    static DurableSample first(Pool pool) {
        return Objects.requireNonNull(pool.root(ROOT, DurableSample.TYPE).get());
    }

    /// Closes it.
    @TearDown(Level.Invocation)
    public void close() {
        pool.close();
    }

    /// Removes all.
    @TearDown
    public void tearDown() throws IOException {
        Samples.delete(directory);
        Samples.delete(original);
    }
}
