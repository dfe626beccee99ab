package dev.terrace.objects.spi;

import dev.terrace.objects.internal.store.MappedRegion;
import java.io.IOException;
import java.nio.file.Path;

/// Directories that pools lie in.
public final class Directories {
    private Directories() {}

    /// Makes the names of the files in a directory durable, as the files themselves are not made
    /// so.
    ///
    /// @throws IOException if the system could not write them
    public static void sync(Path directory) throws IOException {
        MappedRegion.syncNames(directory);
    }
}
