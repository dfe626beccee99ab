package dev.terrace.objects;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/// Writes profiles of programs that were started with `-Dterrace.profile=DIRECTORY`.
/// [java.util.ServiceLoader] finds the implementation.
public interface ProfileSink {
    /// The jars that it needs and that are missing on the class path.
    List<String> missingJars();

    /// Writes a profile over an empty file.
    ///
    /// @throws IOException if the file cannot be written
    void save(Profile profile, Path file) throws IOException;
}
