package dev.terrace.objects.evaluation.graph;

import java.io.IOException;
import java.lang.ref.SoftReference;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Images on the heap, as many as there is room for: behind soft references, which the garbage
/// collector clears when it needs memory. The others are read from a file again.
final class SoftImages implements Images {
    private final FileImages file;
    private final List<@Nullable SoftReference<byte[]>> images;

    /// Images of so many people, none of them on the heap yet.
    SoftImages(Path path, int people) throws IOException {
        file = new FileImages(path);
        images = new ArrayList<>(Collections.nCopies(people, null));
    }

    @Override
    public byte[] image(int number) throws IOException {
        SoftReference<byte[]> reference = images.get(number);
        byte[] known = reference == null ? null : reference.get();
        if (known != null) {
            return known;
        }
        byte[] image = new byte[Image.BYTES];
        file.read(number, image);
        images.set(number, new SoftReference<>(image));
        return image;
    }

    @Override
    public void close() throws IOException {
        file.close();
    }
}
