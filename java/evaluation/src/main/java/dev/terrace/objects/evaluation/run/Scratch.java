package dev.terrace.objects.evaluation.run;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/// Directories that some work may fill, and that are gone after it.
///
/// @param pmem one in persistent memory
/// @param disk one on a disk
public record Scratch(Path pmem, Path disk) implements AutoCloseable {
    private static final String PREFIX = "terrace-evaluation";

    /// New ones.
    ///
    /// @param pmem where the one in persistent memory is made
    /// @param disk where the one on a disk is made
    public static Scratch in(Path pmem, Path disk) throws IOException {
        Path first = Files.createTempDirectory(pmem, PREFIX);
        try {
            return new Scratch(first, Files.createTempDirectory(disk, PREFIX));
        } catch (IOException e) {
            Files.delete(first);
            throw e;
        }
    }

    /// How many bytes the files in a directory have.
    public static long bytes(Path directory) throws IOException {
        long sum = 0;
        for (Path path : all(directory)) {
            sum += Files.isRegularFile(path) ? Files.size(path) : 0;
        }
        return sum;
    }

    /// Removes both.
    @Override
    public void close() throws IOException {
        try {
            delete(pmem);
        } finally {
            delete(disk);
        }
    }

    static void delete(Path directory) throws IOException {
        for (Path path : all(directory).reversed()) {
            Files.delete(path);
        }
    }

    private static List<Path> all(Path directory) throws IOException {
        try (Stream<Path> found = Files.walk(directory)) {
            return found.sorted(Comparator.naturalOrder()).toList();
        }
    }
}
