package dev.terrace.objects;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.ServiceLoader;
import java.util.concurrent.ConcurrentHashMap;
import org.jspecify.annotations.Nullable;

/// Makes profiles of a program that was started with `-Dterrace.profile=DIRECTORY`, without changes
/// to the program: a profile of each pool, from its opening until it is closed or the program ends.
final class ProfiledRun {
    private static final String PROPERTY = "terrace.profile";
    private static final @Nullable String DIRECTORY = System.getProperty(PROPERTY);
    private static final Duration PATIENCE = Duration.ofSeconds(2);
    private static final Map<Pool, Profiling> UNDER_WAY = new ConcurrentHashMap<>();

    static {
        if (DIRECTORY != null) {
            Runtime.getRuntime().addShutdownHook(new Thread(ProfiledRun::endAll));
        }
    }

    private ProfiledRun() {}

    /// Begins a profile of a pool that was opened.
    ///
    /// @throws IllegalStateException if no class can write the profile; the message names the
    ///   missing jar
    static void begin(Pool pool) {
        if (DIRECTORY != null) {
            sink();
            UNDER_WAY.put(pool, pool.profile());
        }
    }

    /// Ends the profiles of all open pools when the program ends. No caller is left to catch
    /// exceptions.
    private static void endAll() {
        for (Pool pool : UNDER_WAY.keySet()) {
            try {
                // A thread that ends the program within a transaction waits for this shutdown.
                if (!pool.store().isAtRestWithin(PATIENCE)) {
                    throw new IllegalStateException(
                            pool.name() + " is in the middle of a transaction that does not end");
                }
                end(pool);
            } catch (RuntimeException e) {
                System.err.println(
                        "-D" + PROPERTY + ": no profile of " + pool.name() + ": " + e.getMessage());
            }
        }
    }

    /// Ends the profile of a pool that is about to be closed, and writes it.
    ///
    /// @throws UncheckedIOException if it cannot be written
    static void end(Pool pool) {
        Profiling profiling = UNDER_WAY.remove(pool);
        if (profiling == null || DIRECTORY == null) {
            return;
        }
        profiling.close();
        try {
            Path file = newFile(Files.createDirectories(Path.of(DIRECTORY)), pool);
            boolean done = false;
            try {
                sink().save(profiling.profile(), file);
                done = true;
            } finally {
                if (!done) {
                    Files.deleteIfExists(file);
                }
            }
        } catch (IOException e) {
            throw new UncheckedIOException(
                    "-D"
                            + PROPERTY
                            + ": the profile of "
                            + pool.name()
                            + " cannot be written: "
                            + e,
                    e);
        }
    }

    /// The file is named after the pool, with a number from the second profile on. It is created at
    /// once, empty, because other processes may be doing the same.
    private static Path newFile(Path directory, Pool pool) throws IOException {
        PoolFiles files = pool.files();
        Path name = files == null ? null : files.directory().getFileName();
        String stem = name == null ? "pool" : name.toString();
        for (int i = 1; ; i++) {
            try {
                return Files.createFile(
                        directory.resolve(stem + (i == 1 ? "" : "-" + i) + ".profile.json"));
            } catch (FileAlreadyExistsException taken) {
                continue;
            }
        }
    }

    private static ProfileSink sink() {
        ProfileSink sink =
                ServiceLoader.load(ProfileSink.class, ProfileSink.class.getClassLoader())
                        .findFirst()
                        .orElseThrow(() -> without(List.of("terrace-objects-placement")));
        if (!sink.missingJars().isEmpty()) {
            throw without(sink.missingJars());
        }
        return sink;
    }

    private static IllegalStateException without(List<String> jars) {
        return new IllegalStateException(
                "-D"
                        + PROPERTY
                        + ": a profile can only be written with "
                        + String.join(", ", jars)
                        + " on the class path: add the jar, or, in Maven and Gradle, a dependency"
                        + " on dev.terrace:terrace-objects-placement");
    }
}
