package dev.terrace.objects.bench;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/// Texts of one length compared with one text, beside `String.equals` of as many instances on the
/// heap. Times are for one comparison.
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(5)
public class TextBench {
    private static final int COUNT = 2_000;

    /// Characters of a text.
    @Param({"40"})
    public int length;

    /// The character in which the texts differ from the one that is sought: the first, the last, or
    /// none.
    @Param({"first", "last", "none"})
    public String differs;

    private Path directory = Path.of("");
    private Pool pool;
    private DurableSample[] samples = {};
    private String[] texts = {};
    private String sought = "";

    /// Makes the pool.
    @Setup
    public void setUp() throws IOException {
        directory = Samples.directory(false);
        pool = Pool.open(directory, PoolOptions.defaults());
        samples = Samples.fill(pool, COUNT);
        sought = "x".repeat(length);
        String stored =
                switch (differs) {
                    case "first" -> "y" + sought.substring(1);
                    case "last" -> sought.substring(1) + "y";
                    default -> sought;
                };
        for (DurableSample sample : samples) {
            sample.setText(stored);
        }
        texts = new String[COUNT];
        // Each one an instance of its own, as the getter makes it.
        Arrays.setAll(texts, i -> String.valueOf(samples[i].getText()));
        System.gc();
    }

    /// Removes it.
    @TearDown
    public void tearDown() throws IOException {
        pool.close();
        Samples.delete(directory);
    }

    /// In place.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int inPlace() {
        int found = 0;
        for (DurableSample sample : samples) {
            found += sample.textEquals(sought) ? 1 : 0;
        }
        return found;
    }

    /// By the getter.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int ofGetter() {
        int found = 0;
        for (DurableSample sample : samples) {
            found += sought.equals(sample.getText()) ? 1 : 0;
        }
        return found;
    }

    /// On the heap.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public int onHeap() {
        int found = 0;
        for (String text : texts) {
            found += sought.equals(text) ? 1 : 0;
        }
        return found;
    }
}
