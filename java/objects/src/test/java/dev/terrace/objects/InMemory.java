package dev.terrace.objects;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.extension.AnnotatedElementContext;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.io.TempDirFactory;

/// Directories for pools in memory, where there is a file system for that: there a commit takes
/// microseconds.
public final class InMemory implements TempDirFactory {
    private static final Path SHM = Path.of("/dev/shm");

    @Override
    public Path createTempDirectory(AnnotatedElementContext element, ExtensionContext test)
            throws IOException {
        return Files.isWritable(SHM)
                ? Files.createTempDirectory(SHM, "terrace-objects-")
                : Files.createTempDirectory("terrace-objects-");
    }
}
