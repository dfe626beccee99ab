package dev.terrace.objects.bench;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import java.io.IOException;
import java.nio.file.Path;
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

/// The same samples in rows and in columns. Times are for one sample.
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 2, jvmArgsAppend = "-Xmx1g")
public class ColumnBench {
    /// More samples than any cache holds.
    static final int COUNT = 1_000_000;

    /// So few that they stay in the processor's cache.
    static final int FEW = 2_000;

    private static final int EXTENT_BYTES = 64 << 20;
    private static final int MADE = 1000;

    /// How samples lie in the pool.
    @Param({"rows", "columns"})
    public String layout = "rows";

    private final int[] reusedNumbers = new int[Cursor.BATCH_MAX];
    private final double[] reusedRows = new double[Cursor.BATCH_MAX * Sample.DIMENSIONS];
    private ObjectType<DurableSample> type = DurableSample.TYPE;
    private Path directory = Path.of("");
    private Pool pool;
    private DurableSample[] few = {};
    private int[] heapNumbers = {};
    private double[][] heapRows = {};

    /// Makes the pool, and the same samples on the heap.
    @Setup
    public void setUp() throws IOException {
        if (layout.equals("columns")) {
            type = DurableSample.TYPE.inColumns();
        }
        directory = Samples.directory(false);
        pool = Samples.open(directory, EXTENT_BYTES);
        Samples.fill(pool, type, COUNT);
        few = new DurableSample[FEW];
        heapNumbers = new int[COUNT];
        heapRows = new double[COUNT][Sample.DIMENSIONS];
        Cursor<DurableSample> cursor = pool.cursor(type);
        for (int i = 0; cursor.next(); i++) {
            if (i < FEW) {
                few[i] = cursor.copy();
            }
            heapNumbers[i] = cursor.get().getNumber();
            cursor.get().copyRow(heapRows[i]);
        }
    }

    /// Removes it.
    @TearDown
    public void tearDown() throws IOException {
        pool.close();
        Samples.delete(directory);
    }

    /// A getter of each of some objects.
    @Benchmark
    @OperationsPerInvocation(FEW)
    public long getNumber() {
        long sum = 0;
        for (DurableSample sample : few) {
            sum += sample.getNumber();
        }
        return sum;
    }

    /// A row of each of some objects, copied into the same array.
    @Benchmark
    @OperationsPerInvocation(FEW)
    public double copyRow() {
        double sum = 0;
        for (DurableSample sample : few) {
            sample.copyRow(reusedRows);
            sum += reusedRows[0];
        }
        return sum;
    }

    /// A walk over all, one number of each.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long walkNumbers() {
        long sum = 0;
        Cursor<DurableSample> cursor = pool.cursor(type);
        while (cursor.next()) {
            sum += cursor.get().getNumber();
        }
        return sum;
    }

    /// The same in batches.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long walkNumbersInBatches() {
        long sum = 0;
        Cursor<DurableSample> cursor = pool.cursor(type);
        for (int count = cursor.nextBatch(); count > 0; count = cursor.nextBatch()) {
            DurableSample.copyNumber(cursor, reusedNumbers, 0);
            for (int i = 0; i < count; i++) {
                sum += reusedNumbers[i];
            }
        }
        return sum;
    }

    /// The same numbers, from an array.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public long heapNumbers() {
        long sum = 0;
        for (int number : heapNumbers) {
            sum += number;
        }
        return sum;
    }

    /// A walk over all in batches, the sum of all rows.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public double walkRowsInBatches() {
        double sum = 0;
        Cursor<DurableSample> cursor = pool.cursor(type);
        for (int count = cursor.nextBatch(); count > 0; count = cursor.nextBatch()) {
            DurableSample.copyRow(cursor, reusedRows, 0);
            sum += Samples.sumOfRows(reusedRows, count);
        }
        return sum;
    }

    /// The same rows, from arrays.
    @Benchmark
    @OperationsPerInvocation(COUNT)
    public double heapRows() {
        double sum = 0;
        for (double[] row : heapRows) {
            sum += Samples.sum(row);
        }
        return sum;
    }

    /// New objects, many in a transaction, and their end.
    @Benchmark
    @OperationsPerInvocation(MADE)
    public void make() {
        pool.transact(() -> {
            for (int i = 0; i < MADE; i++) {
                DurableSample sample = pool.create(type);
                sample.setNumber(i);
                sample.delete();
            }
        });
    }

    /// A new object alone in its transaction, and its end.
    @Benchmark
    public void makeAlone() {
        pool.create(type).delete();
    }
}
