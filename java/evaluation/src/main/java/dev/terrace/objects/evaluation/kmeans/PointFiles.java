package dev.terrace.objects.evaluation.kmeans;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Random;

/// Points in files: as text, a line for each with its coordinates in decimal, and in binary, as
/// numbers of eight bytes.
///
/// @param directory where they are
record PointFiles(Path directory) {
    private static final long SEED = 12;

    /// Coordinates are multiples of a millionth, so that text is exact and not longer than people
    /// write it.
    private static final int MILLION = 1_000_000;

    /// Around how many places points lie, and how far from them.
    private static final int HEAPS = 10;

    private static final double DEVIATION = 0.08;

    Path text() {
        return directory.resolve("points.txt");
    }

    Path binary() {
        return directory.resolve("points.bin");
    }

    /// The directory of the binary files that a program has made of the text.
    Path converted() {
        return directory.resolve("points.converted");
    }

    Path parquet() {
        return directory.resolve("points.parquet");
    }

    /// Writes so many points, as text and in binary: the same each time.
    void write(int rows) throws IOException {
        Random random = new Random(SEED);
        double[] places = random.doubles(HEAPS * Point.DIMENSIONS).toArray();
        byte[] line = new byte[Point.DIMENSIONS * 12];
        ByteBuffer numbers = ByteBuffer.allocate(Point.DIMENSIONS * Double.BYTES);
        try (OutputStream text = new BufferedOutputStream(Files.newOutputStream(text()), 1 << 20);
                OutputStream binary =
                        new BufferedOutputStream(Files.newOutputStream(binary()), 1 << 20)) {
            for (int row = 0; row < rows; row++) {
                int at = random.nextInt(HEAPS) * Point.DIMENSIONS;
                int length = 0;
                numbers.clear();
                for (int i = 0; i < Point.DIMENSIONS; i++) {
                    long millionths =
                            Math.round(
                                    (places[at + i] + random.nextGaussian() * DEVIATION) * MILLION);
                    numbers.putDouble((double) millionths / MILLION);
                    length = append(millionths, line, length);
                    line[length++] = (byte) (i + 1 < Point.DIMENSIONS ? ' ' : '\n');
                }
                text.write(line, 0, length);
                binary.write(numbers.array());
            }
        }
    }

    /// Writes points in binary.
    static void write(Path file, Iterator<double[]> rows) throws IOException {
        ByteBuffer numbers = ByteBuffer.allocate(Point.DIMENSIONS * Double.BYTES);
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(file), 1 << 20)) {
            while (rows.hasNext()) {
                numbers.asDoubleBuffer().put(rows.next());
                out.write(numbers.array());
            }
        }
    }

    private static int append(long millionths, byte[] line, int at) {
        long size = Math.abs(millionths);
        String whole = (millionths < 0 ? "-" : "") + size / MILLION + ".";
        byte[] bytes = whole.getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(bytes, 0, line, at, bytes.length);
        int end = at + bytes.length;
        long rest = size % MILLION;
        for (int unit = MILLION / 10; unit > 0; unit /= 10) {
            line[end++] = (byte) ('0' + rest / unit % 10);
        }
        return end;
    }
}
