package dev.terrace.objects.placement;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/// A program that knows nothing of profiles leaves one of each pool, however it ends.
class ProfiledRunTest {
    @TempDir Path dir;

    /// The program: it closes a pool twice, leaves another one open, and ends within a transaction
    /// of a third.
    static final class Program {
        private Program() {}

        public static void main(String[] arguments) throws IOException {
            Path dir = Path.of(arguments[0]);
            for (int i = 0; i < 2; i++) {
                use(open(dir.resolve("closed"))).close();
            }
            use(open(dir.resolve("open")));
            open(dir.resolve("busy")).transact(() -> System.exit(3));
        }

        private static Pool open(Path dir) throws IOException {
            return Pool.open(dir, PoolOptions.defaults().extents(1 << 20));
        }

        private static Pool use(Pool pool) {
            Probed probed = pool.create(Probed.on(StorageTier.PMEM));
            probed.setNumber(7);
            probed.getNumber();
            return pool;
        }
    }

    /// What it says, and its exit status, on a class path without some entries.
    private String said(String without, int status) throws IOException, InterruptedException {
        String classPath =
                Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                        .filter(entry -> without.isEmpty() || !entry.contains(without))
                        .collect(Collectors.joining(File.pathSeparator));
        Process process =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-XX:TieredStopAtLevel=1",
                                "-Dterrace.profile=" + dir.resolve("profiles"),
                                "-cp",
                                classPath,
                                Program.class.getName(),
                                dir.toString())
                        .redirectErrorStream(true)
                        .start();
        try {
            assertTrue(process.waitFor(60, TimeUnit.SECONDS), "it ends");
            String said =
                    new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals(status, process.exitValue(), said);
            return said;
        } finally {
            process.destroyForcibly();
        }
    }

    /// Before the program has done anything that its profile would be of.
    @ParameterizedTest
    @CsvSource({
        "terrace-objects-placement, placement/target/classes",
        "jackson-databind, /jackson-databind",
        "jackson-core, /jackson-core",
        "jackson-annotations, /jackson-annotations"
    })
    void theJarThatIsMissingIsNamed(String jar, String entry)
            throws IOException, InterruptedException {
        String said = said(entry, 1);
        assertTrue(
                said.contains(
                        "-Dterrace.profile: a profile can only be written with "
                                + jar
                                + " on the class path"),
                said);
        assertFalse(Files.exists(dir.resolve("profiles")), said);
    }

    @Test
    void eachPoolHasOneUnlessItsTransactionDoesNotEnd() throws IOException, InterruptedException {
        Path profiles = dir.resolve("profiles");
        String said = said("", 3);
        assertTrue(said.contains("no profile of " + dir.resolve("busy")), said);
        try (Stream<Path> files = Files.list(profiles)) {
            assertEquals(
                    List.of("closed-2.profile.json", "closed.profile.json", "open.profile.json"),
                    files.map(file -> file.getFileName().toString()).sorted().toList());
        }
        for (String name : List.of("closed", "closed-2", "open")) {
            long reads =
                    ProfileFile.read(profiles.resolve(name + ".profile.json"))
                            .classes()
                            .getFirst()
                            .fields()
                            .getFirst()
                            .reads();
            assertEquals(1, reads, name);
        }
    }
}
