package dev.terrace.objects.evaluation.run;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/// The bytes that the system has read from storage for this process, with what it read ahead.
public final class StorageReads {
    private static final Path FILE = Path.of("/proc/self/io");
    private static final String NAME = "read_bytes: ";

    private StorageReads() {}

    /// Up to now; 0 where the system does not tell.
    public static long now() throws IOException {
        if (!Files.isReadable(FILE)) {
            return 0;
        }
        return Files.readAllLines(FILE).stream()
                .filter(line -> line.startsWith(NAME))
                .mapToLong(line -> Long.parseLong(line.substring(NAME.length())))
                .findFirst()
                .orElse(0);
    }
}
