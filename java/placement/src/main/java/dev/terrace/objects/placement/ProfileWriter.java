package dev.terrace.objects.placement;

import dev.terrace.objects.profile.Profile;
import dev.terrace.objects.profile.ProfileSink;
import java.io.IOException;
import java.nio.file.Path;

/// Writes the profiles of programs that were started with `-Dterrace.profile=DIRECTORY`.
public final class ProfileWriter implements ProfileSink {
    @Override
    public void save(Profile profile, Path file) throws IOException {
        ProfileFile.write(file, profile);
    }
}
