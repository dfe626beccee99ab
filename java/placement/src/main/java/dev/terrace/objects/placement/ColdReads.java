package dev.terrace.objects.placement;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.OpenOption;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Random;
import java.util.stream.Stream;

/// Reads of a disk that the system's cache has no part in.
final class ColdReads implements AutoCloseable {
    private final FileChannel channel;
    private final int block;
    private final long bytes;
    private final Random random = new Random(1);

    /// Writes a file of so many bytes, and opens it for such reads.
    ///
    /// @throws IOException if it cannot be written
    /// @throws UnsupportedOperationException if the file system has no such reads
    ColdReads(Path file, long bytes) throws IOException {
        this.bytes = bytes;
        block =
                Math.toIntExact(
                        Files.getFileStore(file.toAbsolutePath().getParent()).getBlockSize());
        write(file);
        FileChannel opened;
        try {
            opened = FileChannel.open(file, StandardOpenOption.READ, direct());
        } catch (IOException e) {
            throw new UnsupportedOperationException("the file system has no direct reads", e);
        }
        channel = opened;
    }

    /// `ExtendedOpenOption.DIRECT`, found by its name: it is documented, but of the module
    /// `jdk.unsupported`, and whoever names it in source is warned in a way that cannot be
    /// suppressed.
    private static OpenOption direct() {
        try {
            return Stream.of(
                            Class.forName("com.sun.nio.file.ExtendedOpenOption").getEnumConstants())
                    .filter(option -> option.toString().equals("DIRECT"))
                    .map(OpenOption.class::cast)
                    .findFirst()
                    .orElseThrow();
        } catch (ClassNotFoundException e) {
            throw new UnsupportedOperationException("this Java has no direct reads", e);
        }
    }

    private void write(Path file) throws IOException {
        try (FileChannel out =
                FileChannel.open(file, StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE)) {
            byte[] noise = new byte[1 << 20];
            for (long at = 0; at < bytes; at += noise.length) {
                random.nextBytes(noise);
                ByteBuffer buffer = ByteBuffer.wrap(noise);
                while (buffer.hasRemaining()) {
                    out.write(buffer);
                }
            }
            out.force(true);
        }
    }

    int block() {
        return block;
    }

    /// The median of what it costs to read all blocks that a value of so many bytes lies in, in
    /// nanoseconds.
    double median(int size, Stopwatch stopwatch) {
        int whole = Math.ceilDiv(size, block) * block;
        ByteBuffer buffer =
                ByteBuffer.allocateDirect(whole + block).alignedSlice(block).limit(whole);
        int places = Math.toIntExact((bytes - whole) / block + 1);
        return stopwatch.median(_ -> {
            try {
                return channel.read(
                        buffer.clear().limit(whole), (long) random.nextInt(places) * block);
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        });
    }

    @Override
    public void close() throws IOException {
        channel.close();
    }
}
