package dev.terrace.objects.evaluation.graph;

import java.io.BufferedOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;

/// Images in a file outside of the heap, one after the other, of which the system keeps in its page
/// cache as much as there is room for. Each is read into the same array.
final class FileImages implements Images {
    private final Path path;
    private final FileChannel file;
    private final ByteBuffer buffer = ByteBuffer.allocateDirect(Image.BYTES);
    private final byte[] image = new byte[Image.BYTES];

    /// Opens a file that `write` has made.
    FileImages(Path path) throws IOException {
        this.path = path;
        file = FileChannel.open(path, StandardOpenOption.READ);
    }

    /// Writes the images of so many people.
    static void write(Path path, int people) throws IOException {
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(path))) {
            for (int number = 0; number < people; number++) {
                out.write(Image.of(number));
            }
        }
    }

    @Override
    public byte[] image(int number) throws IOException {
        read(number, image);
        return image;
    }

    /// Reads the image of somebody into an array.
    void read(int number, byte[] into) throws IOException {
        buffer.clear();
        long at = (long) number * Image.BYTES;
        while (buffer.hasRemaining()) {
            if (file.read(buffer, at + buffer.position()) < 0) {
                throw new EOFException(path + " has no image of person " + number);
            }
        }
        buffer.flip().get(into);
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
