package dev.terrace.objects.bench;

import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Random;
import java.util.stream.Stream;

/// Pools of samples, in directories of their own.
final class Samples {
    private static final Path DEV_SHM = Path.of("/dev/shm");
    private static final Path DISK = Path.of("/var/tmp");
    private static final int PER_TRANSACTION = 10_000;

    private Samples() {}

    /// A new directory: in memory that stands in for persistent memory, or on a disk.
    static Path directory(boolean onDisk) throws IOException {
        return Files.createTempDirectory(onDisk ? DISK : DEV_SHM, "terrace-objects-bench");
    }

    static Pool open(Path directory, long extentBytes) throws IOException {
        return Pool.open(directory, PoolOptions.defaults().extents(extentBytes));
    }

    static Pool openToRead(Path directory) throws IOException {
        return Pool.open(directory, PoolOptions.defaults().toRead());
    }

    /// Where a sample's record begins in the pool's file.
    static long record(DurableSample sample) {
        return (sample.reference() & (1L << 40) - 1) << 4;
    }

    static double sum(double[] row) {
        double sum = 0;
        for (double element : row) {
            sum += element;
        }
        return sum;
    }

    /// The sum of rows that lie one behind the other.
    static double sumOfRows(double[] rows, int count) {
        double sum = 0;
        for (int row = 0; row < count; row++) {
            double ofRow = 0;
            for (int i = 0; i < Sample.DIMENSIONS; i++) {
                ofRow += rows[row * Sample.DIMENSIONS + i];
            }
            sum += ofRow;
        }
        return sum;
    }

    static double[] row(Random random) {
        return random.doubles(Sample.DIMENSIONS).toArray();
    }

    /// Adds samples to a pool: the same each time.
    ///
    /// @return handles of them
    static DurableSample[] fill(Pool pool, int count) {
        return fill(pool, DurableSample.TYPE, count);
    }

    static DurableSample[] fill(Pool pool, ObjectType<DurableSample> type, int count) {
        Random random = new Random(1);
        DurableSample[] all = new DurableSample[count];
        for (int from = 0; from < count; from += PER_TRANSACTION) {
            int begin = from;
            int end = Math.min(count, from + PER_TRANSACTION);
            pool.transact(() -> {
                for (int i = begin; i < end; i++) {
                    all[i] = pool.create(type);
                    all[i].setNumber(random.nextInt());
                    all[i].setRow(row(random));
                }
            });
        }
        return all;
    }

    /// Adds blocks of rows to a pool.
    static void fillBlocks(Pool pool, int count) {
        Random random = new Random(1);
        for (int i = 0; i < count; i++) {
            double[] rows = random.doubles(Block.ROWS * Sample.DIMENSIONS).toArray();
            pool.transact((Runnable) () -> DurableBlock.create(pool).setRows(rows));
        }
    }

    /// Deletes a directory with all that is in it.
    static void delete(Path directory) throws IOException {
        List<Path> all;
        try (Stream<Path> found = Files.walk(directory)) {
            all = found.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path path : all) {
            Files.delete(path);
        }
    }
}
