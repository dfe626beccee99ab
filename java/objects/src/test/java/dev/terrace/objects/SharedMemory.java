package dev.terrace.objects;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/// Directories for pools in memory that stands in for persistent memory.
final class SharedMemory {
    private static final Path DEV_SHM = Path.of("/dev/shm");

    private SharedMemory() {}

    /// A new directory: in /dev/shm, where there is that.
    static Path directory() throws IOException {
        return Files.isWritable(DEV_SHM)
                ? Files.createTempDirectory(DEV_SHM, "terrace-objects-test")
                : Files.createTempDirectory("terrace-objects-test");
    }

    /// Deletes it, and all that is in it.
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
