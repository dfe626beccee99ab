package dev.terrace.objects.bench;

import dev.terrace.objects.Pool;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Random;
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

/// Reading many samples: a number of each, or a row of each. Times are for one sample.
///
/// The baselines read the same bytes of the same file through a mapping of their own, or arrays on
/// the heap.
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(2)
public class ReadBench {
    /// How many samples: so few that they stay in the processor's cache, since it is instructions
    /// that are counted here.
    static final int COUNT = 2_000;

    private static final ValueLayout.OfInt INT =
            ValueLayout.JAVA_INT.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final ValueLayout.OfDouble DOUBLE =
            ValueLayout.JAVA_DOUBLE.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final int NUMBER_AT = DurableSample.TYPE.offset(0);
    private static final int ROW_AT = DurableSample.TYPE.offset(1);
    private static final int LARGE_EXTENT_BYTES = 64 << 20;
    private static final int SMALL_EXTENT_BYTES = 1 << 20;

    /// The least that an object needs to read from a mapping.
    private record PlainHandle(MemorySegment memory, long record) {
        int getNumber() {
            return memory.get(INT, record + NUMBER_AT);
        }
    }

    /// Whether all samples lie in one extent, or each in another one than the last.
    @Param({"one", "many"})
    public String extents = "one";

    private final Arena arena = Arena.ofShared();
    private final double[] reused = new double[Sample.DIMENSIONS];
    private Path directory = Path.of("");
    private Pool pool;
    private DurableSample[] samples = {};
    private long[] records = {};
    private PlainHandle[] handles = {};
    private MemorySegment file = MemorySegment.NULL;
    private double[][] heapRows = {};
    private int[] heapNumbers = {};

    /// Makes the pool.
    @Setup
    public void setUp() throws IOException {
        boolean isOne = extents.equals("one");
        directory = Samples.directory(false);
        pool = Samples.open(directory, isOne ? LARGE_EXTENT_BYTES : SMALL_EXTENT_BYTES);
        samples = isOne ? Samples.fill(pool, COUNT) : spread(Samples.fill(pool, 20 * COUNT));
        // So that handles lie beside each other on the heap, as they do where all were kept.
        System.gc();
        records = new long[COUNT];
        heapNumbers = new int[COUNT];
        heapRows = new double[COUNT][Sample.DIMENSIONS];
        for (int i = 0; i < COUNT; i++) {
            records[i] = Samples.record(samples[i]);
            heapNumbers[i] = samples[i].getNumber();
            samples[i].copyRow(heapRows[i]);
        }
        try (FileChannel channel = FileChannel.open(directory.resolve("pool"))) {
            file = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
        }
        handles = new PlainHandle[COUNT];
        Arrays.setAll(handles, i -> new PlainHandle(file, records[i]));
    }

    /// Some of them, in such an order that neighbours lie far from each other.
    private static DurableSample[] spread(DurableSample[] all) {
        DurableSample[] some = new DurableSample[COUNT];
        Random random = new Random(2);
        for (int i = 0; i < COUNT; i++) {
            some[i] = all[(i % 20) * COUNT + random.nextInt(COUNT)];
        }
        return some;
    }

    /// Removes it.
    @TearDown
    public void tearDown() throws IOException {
        pool.close();
        arena.close();
        Samples.delete(directory);
    }

    /// A getter of each.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long getNumber() {
        long sum = 0;
        for (DurableSample sample : samples) {
            sum += sample.getNumber();
        }
        return sum;
    }

    /// The same bytes, from a plain mapping.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long getNumberOfPlainMapping() {
        long sum = 0;
        for (long record : records) {
            sum += file.get(INT, record + NUMBER_AT);
        }
        return sum;
    }

    /// The same bytes, from a plain mapping, each by way of an object that knows where they are: as
    /// handles do, and no more.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long getNumberOfPlainHandle() {
        long sum = 0;
        for (PlainHandle handle : handles) {
            sum += handle.getNumber();
        }
        return sum;
    }

    /// A getter of one object again and again.
    @Benchmark
    public int getNumberOfOne() {
        return samples[0].getNumber();
    }

    /// As [#getNumberOfOne()], of a plain mapping.
    @Benchmark
    public int getNumberOfOnePlainHandle() {
        return handles[0].getNumber();
    }

    /// The same numbers, from an array.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long getNumberOfHeap() {
        long sum = 0;
        for (int number : heapNumbers) {
            sum += number;
        }
        return sum;
    }

    /// Rows, each copied into the same array.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public double scanRows() {
        double sum = 0;
        for (DurableSample sample : samples) {
            sample.copyRow(reused);
            sum += Samples.sum(reused);
        }
        return sum;
    }

    /// Rows, element by element.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public double scanRowsByElement() {
        double sum = 0;
        for (DurableSample sample : samples) {
            for (int i = 0; i < Sample.DIMENSIONS; i++) {
                sum += sample.getRow(i);
            }
        }
        return sum;
    }

    /// The same bytes, from a plain mapping.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public double scanRowsOfPlainMapping() {
        double sum = 0;
        for (long record : records) {
            MemorySegment.copy(file, DOUBLE, record + ROW_AT, reused, 0, Sample.DIMENSIONS);
            sum += Samples.sum(reused);
        }
        return sum;
    }

    /// The same rows, from arrays.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public double scanRowsOfHeap() {
        double sum = 0;
        for (double[] row : heapRows) {
            sum += Samples.sum(row);
        }
        return sum;
    }
}
