package dev.terrace.objects.placement;

import dev.terrace.objects.Profile;
import dev.terrace.objects.ProfileSink;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// Writes the profiles of programs that were started with `-Dterrace.profile=DIRECTORY`.
public final class ProfileWriter implements ProfileSink {
    /// Of each jar that this needs a class.
    private static final Map<String, String> NEEDED =
            new TreeMap<>(
                    Map.of(
                            "jackson-annotations", "com.fasterxml.jackson.annotation.JsonProperty",
                            "jackson-core", "com.fasterxml.jackson.core.JsonFactory",
                            "jackson-databind", "com.fasterxml.jackson.databind.ObjectMapper"));

    @Override
    public List<String> missingJars() {
        return NEEDED.entrySet().stream()
                .filter(each -> !isThere(each.getValue()))
                .map(Map.Entry::getKey)
                .toList();
    }

    private static boolean isThere(String name) {
        return ProfileWriter.class.getResource("/" + name.replace('.', '/') + ".class") != null;
    }

    @Override
    public void save(Profile profile, Path file) throws IOException {
        ProfileFile.write(file, profile);
    }
}
