package dev.terrace.objects.evaluation.run;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;

/// Directories that some work may fill, and that are gone after it, also when the process is told
/// to end meanwhile.
public final class Scratch implements AutoCloseable {
    private static final String PREFIX = "terrace-evaluation";

    private final Path pmem;
    private final Path disk;
    private final Runnable atExit = this::deleteQuietly;

    private Scratch(Path pmem, Path disk) {
        this.pmem = pmem;
        this.disk = disk;
        AtExit.add(atExit);
    }

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

    /// The directory in persistent memory.
    public Path pmem() {
        return pmem;
    }

    /// The directory on a disk.
    public Path disk() {
        return disk;
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
        AtExit.remove(atExit);
        try {
            delete(pmem);
        } finally {
            delete(disk);
        }
    }

    private void deleteQuietly() {
        for (Path directory : List.of(pmem, disk)) {
            try {
                delete(directory);
            } catch (IOException e) {
                System.err.println("cannot remove " + directory + ": " + e);
            }
        }
    }

    /// Removes a directory with all that is in it, if it is there.
    public static void delete(Path directory) throws IOException {
        if (!Files.exists(directory)) {
            return;
        }
        for (Path path : all(directory).reversed()) {
            Files.deleteIfExists(path);
        }
    }

    private static List<Path> all(Path directory) throws IOException {
        try (Stream<Path> found = Files.walk(directory)) {
            return found.sorted(Comparator.naturalOrder()).toList();
        }
    }
}
