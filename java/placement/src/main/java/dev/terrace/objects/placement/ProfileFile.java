package dev.terrace.objects.placement;

import dev.terrace.objects.Profile;
import java.io.IOException;
import java.nio.file.Path;

/// Profiles in files, as JSON.
public final class ProfileFile {
    private static final JsonFile<Profile> FORMAT =
            new JsonFile<>("terrace-profile", 1, Profile.class);

    private ProfileFile() {}

    /// Reads a profile.
    ///
    /// @throws IOException if the file cannot be read, or is none of a profile, or of another
    ///   version, or is damaged; the message names it
    public static Profile read(Path file) throws IOException {
        return FORMAT.read(file);
    }

    /// Writes a profile, in the place of the file if there is one.
    ///
    /// @throws IOException if that cannot be done; then the file is what it was
    public static void write(Path file, Profile profile) throws IOException {
        FORMAT.write(file, profile);
    }
}
