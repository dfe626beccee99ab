package dev.terrace.objects.bench;

import dev.terrace.objects.Pool;
import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;
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

/// Transactions of one or two objects, each durable when it returns: in memory that stands in for
/// persistent memory, where nothing needs to be flushed, and on a disk, where each waits for it.
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(2)
public class WriteBench {
    private static final int EXTENT_BYTES = 64 << 20;

    /// The kind of memory below the pool.
    @Param({"emulated", "msync"})
    public String durability = "emulated";

    /// Characters of texts.
    @Param({"40"})
    public int textLength = 40;

    private Path directory = Path.of("");
    private Pool pool;
    private DurableSample one;
    private DurableSample other;
    private String[] texts = {};
    private int count;

    /// Makes the pool.
    @Setup
    public void setUp() throws IOException {
        directory = Samples.directory(durability.equals("msync"));
        pool = Samples.open(directory, EXTENT_BYTES);
        one = DurableSample.create(pool);
        other = DurableSample.create(pool);
        texts = new String[] {"x".repeat(textLength), "y".repeat(textLength)};
        one.setText(texts[0]);
    }

    /// Removes it.
    @TearDown
    public void tearDown() throws IOException {
        pool.close();
        Samples.delete(directory);
    }

    /// A field of one word, outside of a transaction.
    @Benchmark
    public void setNumber() {
        one.setNumber(++count);
    }

    /// The same in a transaction.
    @Benchmark
    public void transactOne() {
        pool.transact(() -> one.setNumber(++count));
    }

    /// Two objects in a transaction.
    @Benchmark
    public void transactTwo() {
        pool.transact(() -> {
            one.setNumber(++count);
            other.setNumber(-count);
        });
    }

    /// Another text in the place of one.
    @Benchmark
    public void setText() {
        one.setText(texts[++count & 1]);
    }

    /// A text.
    @Benchmark
    public @Nullable String getText() {
        return one.getText();
    }

    /// A new object, and its end.
    @Benchmark
    public void createAndDelete() {
        DurableSample.create(pool).delete();
    }
}
