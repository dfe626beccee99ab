package dev.terrace.objects;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;

/// Writes profiles of programs that were started with `-Dterrace.profile=DIRECTORY`: found by
/// [java.util.ServiceLoader].
public interface ProfileSink {
    /// The jars that it needs and that are not on the class path.
    List<String> missingJars();

    /// Writes a profile, in the place of a file that is empty.
    ///
    /// @throws IOException if that cannot be done
    void save(Profile profile, Path file) throws IOException;
}
