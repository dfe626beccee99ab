package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.util.ArrayList;
import java.util.List;

/// Reads the binary file to the heap, without Spark.
record ReadJob(PointFiles files) implements Job<Phase> {
    private static final int ROWS_AT_ONCE = 10_000;

    @Override
    public Phase run() throws Exception {
        Meter meter = new Meter();
        long read = meter.phase("read", this::read).size();
        long expected = files.binary().toFile().length() / (Point.DIMENSIONS * Double.BYTES);
        if (read != expected) {
            throw new IOException(
                    files.binary() + " has " + expected + " points, and " + read + " were read");
        }
        return meter.phases().getFirst();
    }

    private List<double[]> read() throws IOException {
        List<double[]> rows = new ArrayList<>();
        ByteBuffer buffer =
                ByteBuffer.allocateDirect(ROWS_AT_ONCE * Point.DIMENSIONS * Double.BYTES);
        try (FileChannel file = FileChannel.open(files.binary())) {
            while (file.read(buffer) >= 0) {
                buffer.flip();
                while (buffer.remaining() >= Point.DIMENSIONS * Double.BYTES) {
                    double[] row = new double[Point.DIMENSIONS];
                    buffer.asDoubleBuffer().get(row);
                    buffer.position(buffer.position() + row.length * Double.BYTES);
                    rows.add(row);
                }
                buffer.compact();
            }
        }
        return rows;
    }
}
