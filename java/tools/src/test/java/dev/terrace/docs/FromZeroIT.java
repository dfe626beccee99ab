package dev.terrace.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.io.TempDir;

/// Does what GUIDE.md tells a newcomer, with a copy of this library's sources, in empty folders,
/// under a home directory that holds nothing.
@ExtendWith(PublishedLibrary.Once.class)
class FromZeroIT {
    private static final Path GRADLE_SHIM =
            Path.of("src", "test", "resources", "old.gradle").toAbsolutePath();

    /// The first Gradle that knows JDK 25.
    private static final int GRADLE = 9;

    @TempDir private static Path dir;

    private Path people = Path.of("");
    private List<String> commands = List.of();

    /// The page's part, as it is printed.
    static Page page() throws IOException {
        return Page.read(Path.of("..", "docs", "GUIDE.md")).under("## From an empty folder");
    }

    @BeforeEach
    void beginWithAnEmptyFolder() throws IOException {
        people = Files.createTempDirectory(dir, "people");
        page().writeFiles(people);
        commands = page().commands();
        assertEquals(5, commands.size(), "each command has a step here: " + commands);
        assertEquals(PublishedLibrary.COMMAND, commands.get(0), "how the library was published");
    }

    @Test
    void maven(PublishedLibrary library) throws IOException, InterruptedException {
        Shell shell = library.shell().at("/dev/shm/people", dir.resolve("pool-of-Maven"));
        String said = shell.run(people, commands.get(1));
        assertFalse(said.contains("[WARNING]"), said);
        printsWhatThePageSays(shell, commands.get(2));
    }

    private void printsWhatThePageSays(Shell shell, String command)
            throws IOException, InterruptedException {
        String printed = "DurablePerson[age=1, name=Bob]";
        assertTrue(page().text().contains("`" + printed + "`"), "the page says what it prints");
        // Scripts of Debian's Gradle say first which Java they have found.
        for (String expected : List.of(printed, printed.replace("1", "2"))) {
            String said = shell.run(people, command);
            assertEquals(expected, said.strip().lines().toList().getLast(), said);
        }
    }

    @Test
    void gradle(PublishedLibrary library) throws IOException, InterruptedException {
        Shell shell = library.shell().at("/dev/shm/people", dir.resolve("pool-of-Gradle"));
        shell.withPrograms(gradleWithoutDaemon());
        shell.run(people, commands.get(3));
        printsWhatThePageSays(shell, commands.get(4));
    }

    /// A `gradle` that leaves no process and nothing in the user's directory. One that is too old
    /// for a JDK 25, and for some of what the page uses, runs on the machine's own Java and is
    /// taught that; the page's text stays as it is.
    private static Path gradleWithoutDaemon() throws IOException, InterruptedException {
        String path = System.getenv("PATH");
        Matcher version =
                Pattern.compile("(?m)^Gradle ([0-9]+)\\.")
                        .matcher(
                                new Shell(dir.resolve("output"))
                                        .with("PATH", path)
                                        .with("JAVA_HOME", "")
                                        .run(dir, "gradle --version 2>&1 || true"));
        boolean isThere = version.find();
        assertTrue(
                isThere || System.getenv("TERRACE_PROOF_REQUIRE") == null,
                "there is no gradle: scripts/setup.sh test installs it");
        assumeTrue(isThere, "there is no gradle");
        String home = System.getProperty("java.home");
        String environment =
                Integer.parseInt(version.group(1)) >= GRADLE
                        ? "export JAVA_HOME='" + home + "'"
                        : "unset JAVA_HOME; export TERRACE_JDK='"
                                + home
                                + "'; set -- --init-script '"
                                + GRADLE_SHIM
                                + "' \"$@\"";
        Path programs = Files.createTempDirectory(dir, "programs");
        Path script =
                Files.writeString(
                        programs.resolve("gradle"),
                        """
                        #!/bin/sh
                        export PATH='%s' GRADLE_OPTS=-Duser.home="$HOME"
                        %s
                        exec gradle --no-daemon --gradle-user-home '%s' "$@"
                        """
                                .formatted(path, environment, dir.resolve("gradle-home")));
        assertTrue(script.toFile().setExecutable(true));
        return programs;
    }
}
