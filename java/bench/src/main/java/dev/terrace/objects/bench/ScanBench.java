package dev.terrace.objects.bench;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.Pool;
import java.io.IOException;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
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

/// A scan over more rows than any cache holds, as k-means does it: the sum of all elements. Times
/// are for a scan of all rows: of a million, a millisecond is a nanosecond a row.
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Warmup(iterations = 5, time = 1)
@Measurement(iterations = 5, time = 1)
@Fork(value = 2, jvmArgsAppend = "-Xmx1g")
public class ScanBench {
    private static final ValueLayout.OfDouble DOUBLE =
            ValueLayout.JAVA_DOUBLE.withOrder(ByteOrder.LITTLE_ENDIAN);
    private static final int ROW_AT = DurableSample.TYPE.offset(1);
    private static final int EXTENT_BYTES = 64 << 20;

    /// The process that scans: the one that writes the pool, one that has opened it read-only, or
    /// one that has opened it read-only after it was sealed.
    @Param({"writer", "reader", "sealed"})
    public String who = "writer";

    /// How many rows.
    @Param("1000000")
    public int objects = 1_000_000;

    private final Arena arena = Arena.ofShared();
    private final double[] reused = new double[Sample.DIMENSIONS];
    private Path directory = Path.of("");
    private Pool pool;
    private long[] records = {};
    private MemorySegment file = MemorySegment.NULL;
    private double[][] heapRows = {};
    private final int[] reusedNumbers = new int[Cursor.BATCH_MAX];
    private final double[] reusedBlock = new double[Block.ROWS * Sample.DIMENSIONS];

    /// Makes the pool, and the same rows on the heap.
    @Setup
    public void setUp() throws IOException {
        directory = Samples.directory(false);
        try (Pool filled = Samples.open(directory, EXTENT_BYTES)) {
            Samples.fill(filled, objects);
            Samples.fillBlocks(filled, objects / Block.ROWS);
            if (who.equals("sealed")) {
                filled.seal();
            }
        }
        pool =
                who.equals("writer")
                        ? Samples.open(directory, EXTENT_BYTES)
                        : Samples.openToRead(directory);
        heapRows = new double[objects][Sample.DIMENSIONS];
        records = new long[objects];
        Cursor<DurableSample> cursor = pool.cursor(DurableSample.TYPE);
        for (int i = 0; cursor.next(); i++) {
            cursor.get().copyRow(heapRows[i]);
            records[i] = Samples.record(cursor.get());
        }
        try (FileChannel channel = FileChannel.open(directory.resolve("pool"))) {
            file = channel.map(FileChannel.MapMode.READ_ONLY, 0, channel.size(), arena);
        }
    }

    /// Removes it.
    @TearDown
    public void tearDown() throws IOException {
        pool.close();
        arena.close();
        Samples.delete(directory);
    }

    /// Arrays on the heap.
    @Benchmark
    public double heap() {
        double sum = 0;
        for (double[] row : heapRows) {
            sum += Samples.sum(row);
        }
        return sum;
    }

    /// A walk over the pool, each row copied into the same array.
    @Benchmark
    public double walk() {
        double sum = 0;
        Cursor<DurableSample> cursor = pool.cursor(DurableSample.TYPE);
        while (cursor.next()) {
            cursor.get().copyRow(reused);
            sum += Samples.sum(reused);
        }
        return sum;
    }

    /// A walk over the same number of rows, many of which make up an object.
    @Benchmark
    public double walkBlocks() {
        double sum = 0;
        Cursor<DurableBlock> cursor = pool.cursor(DurableBlock.TYPE);
        while (cursor.next()) {
            cursor.get().copyRows(reusedBlock);
            sum += Samples.sumOfRows(reusedBlock, Block.ROWS);
        }
        return sum;
    }

    /// A walk over the pool, each row element by element.
    @Benchmark
    public double walkByElement() {
        double sum = 0;
        Cursor<DurableSample> cursor = pool.cursor(DurableSample.TYPE);
        while (cursor.next()) {
            for (int i = 0; i < Sample.DIMENSIONS; i++) {
                sum += cursor.get().getRow(i);
            }
        }
        return sum;
    }

    /// A walk over the pool, one number of each object.
    @Benchmark
    public long walkNumbers() {
        long sum = 0;
        Cursor<DurableSample> cursor = pool.cursor(DurableSample.TYPE);
        while (cursor.next()) {
            sum += cursor.get().getNumber();
        }
        return sum;
    }

    /// A walk over the pool in batches, the rows of each copied into the same array.
    @Benchmark
    public double walkInBatches() {
        double sum = 0;
        Cursor<DurableSample> cursor = pool.cursor(DurableSample.TYPE);
        for (int count = cursor.nextBatch(); count > 0; count = cursor.nextBatch()) {
            DurableSample.copyRow(cursor, reusedBlock, 0);
            sum += Samples.sumOfRows(reusedBlock, count);
        }
        return sum;
    }

    /// A walk over the pool in batches, one number of each object.
    @Benchmark
    public long walkNumbersInBatches() {
        long sum = 0;
        Cursor<DurableSample> cursor = pool.cursor(DurableSample.TYPE);
        for (int count = cursor.nextBatch(); count > 0; count = cursor.nextBatch()) {
            DurableSample.copyNumber(cursor, reusedNumbers, 0);
            for (int i = 0; i < count; i++) {
                sum += reusedNumbers[i];
            }
        }
        return sum;
    }

    /// The same bytes, from a plain mapping, copied in bulk.
    @Benchmark
    public double plainMapping() {
        double sum = 0;
        for (long record : records) {
            MemorySegment.copy(file, DOUBLE, record + ROW_AT, reused, 0, Sample.DIMENSIONS);
            sum += Samples.sum(reused);
        }
        return sum;
    }
}
