package dev.terrace.objects;

import dev.terrace.objects.profile.ProfileSink;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// Makes profiles of a program that knows nothing of it: of each pool from when it is opened until it is closed, or the program ends, if that was started with
/// `-Dterrace.profile=DIRECTORY`.
final class ProfiledRun {
    private static final String PROPERTY = "terrace.profile";
    private static final @Nullable String DIRECTORY = System.getProperty(PROPERTY);
    private static final Map<Pool, Profiling> UNDER_WAY = new ConcurrentHashMap<>();

    static {
        if (DIRECTORY != null) {
            Runtime.getRuntime().addShutdownHook(new Thread(() -> UNDER_WAY.keySet().forEach(ProfiledRun::end)));
        }
    }

    private ProfiledRun() {}

    /// Begins with a pool that was opened.
    ///
    /// @throws IllegalStateException if nothing can write the profile
    static void begin(Pool pool) {
        if (DIRECTORY != null) {
            sink();
            UNDER_WAY.put(pool, pool.profile());
        }
    }

    /// Ends with a pool that is about to be closed, and writes what it was.
    ///
    /// @throws UncheckedIOException if it cannot be written
    static void end(Pool pool) {
        Profiling profiling = UNDER_WAY.remove(pool);
        if (profiling == null || DIRECTORY == null) {
            return;
        }
        profiling.close();
        try {
            Path directory = Files.createDirectories(Path.of(DIRECTORY));
            sink().save(profiling.profile(), newFile(directory, pool));
        } catch (IOException e) {
            throw new UncheckedIOException("-D" + PROPERTY + ": the profile of " + pool.name() + " cannot be written", e);
        }
    }

    /// Named after the pool, and numbered from the second on.
    private static Path newFile(Path directory, Pool pool) {
        PoolFiles files = pool.files();
        Path name = files == null ? null : files.directory().getFileName();
        String stem = name == null ? "pool" : name.toString();
        Path file = directory.resolve(stem + ".profile.json");
        for (int i = 2; Files.exists(file); i++) {
            file = directory.resolve(stem + "-" + i + ".profile.json");
        }
        return file;
    }

    private static ProfileSink sink() {
        return ServiceLoader.load(ProfileSink.class, ProfileSink.class.getClassLoader())
                .findFirst()
                .orElseThrow(() -> new IllegalStateException("-D" + PROPERTY
                        + ": nothing can write a profile: put terrace-objects-placement on the class path"));
    }
}
