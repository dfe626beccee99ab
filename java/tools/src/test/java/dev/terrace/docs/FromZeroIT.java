package dev.terrace.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Does what GUIDE.md tells a newcomer, with a copy of this library's sources, in empty folders,
/// under a home directory that holds nothing.
class FromZeroIT {
    private static final Path ROOT = Path.of("..", "..").toAbsolutePath().normalize();
    private static final Path GRADLE_SHIM =
            Path.of("src", "test", "resources", "old.gradle").toAbsolutePath();

    /// The first Gradle that knows JDK 25.
    private static final int GRADLE = 9;

    /// Where Maven finds what this machine has downloaded already, before it asks others.
    private static final String SETTINGS =
            """
            <settings>
              <profiles>
                <profile>
                  <id>here</id>
                  <repositories>%1$s</repositories>
                  <pluginRepositories>%2$s</pluginRepositories>
                </profile>
              </profiles>
              <activeProfiles>
                <activeProfile>here</activeProfile>
              </activeProfiles>
            </settings>
            """;

    private static final String REPOSITORY =
            """
            <%1$s>
              <id>downloaded</id>
              <url>%2$s</url>
              <releases><checksumPolicy>ignore</checksumPolicy></releases>
              <snapshots><enabled>false</enabled></snapshots>
            </%1$s>
            """;

    @TempDir private static Path dir;

    private static List<String> commands = List.of();

    private Path people = Path.of("");

    @BeforeAll
    static void install() throws IOException, InterruptedException {
        String url = Path.of(System.getProperty("terrace.repository")).toUri().toString();
        Files.writeString(
                Files.createDirectories(dir.resolve("home").resolve(".m2")).resolve("settings.xml"),
                SETTINGS.formatted(
                        REPOSITORY.formatted("repository", url),
                        REPOSITORY.formatted("pluginRepository", url)));
        commands = page().commands();
        assertEquals(5, commands.size(), "each command has a step here: " + commands);
        shell().run(copyOfSources(), commands.get(0));
    }

    /// The page's part, as it is printed.
    static Page page() throws IOException {
        return Page.read(Path.of("..", "docs", "GUIDE.md")).under("## From an empty folder");
    }

    private static Shell shell() {
        Path home = dir.resolve("home");
        return new Shell(dir.resolve("output"))
                .with("HOME", home.toString())
                .with("MAVEN_OPTS", "-Duser.home=" + home);
    }

    /// What of the sources an installation needs, without its tests.
    private static Path copyOfSources() throws IOException {
        Path copy = Files.createDirectory(dir.resolve("terrace"));
        List<Path> files;
        try (Stream<Path> modules = Files.list(ROOT.resolve("java"))) {
            files =
                    Stream.concat(
                                    Stream.of(
                                                    "scripts",
                                                    "java/pom.xml",
                                                    "java/objects/src/main",
                                                    "java/processor/src/main")
                                            .map(ROOT::resolve),
                                    modules.map(module -> module.resolve("pom.xml"))
                                            .filter(Files::exists))
                            .flatMap(FromZeroIT::files)
                            .toList();
        }
        for (Path file : files) {
            Path to = copy.resolve(ROOT.relativize(file));
            Files.createDirectories(to.getParent());
            Files.copy(file, to, StandardCopyOption.COPY_ATTRIBUTES);
        }
        return copy;
    }

    private static Stream<Path> files(Path of) {
        try (Stream<Path> files = Files.walk(of)) {
            return files.filter(Files::isRegularFile).toList().stream();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @BeforeEach
    void beginWithAnEmptyFolder() throws IOException {
        people = Files.createTempDirectory(dir, "people");
        page().writeFiles(people);
    }

    @Test
    void maven() throws IOException, InterruptedException {
        Shell shell = shell().at("/dev/shm/people", dir.resolve("pool-of-Maven"));
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
    void gradle() throws IOException, InterruptedException {
        Shell shell = shell().at("/dev/shm/people", dir.resolve("pool-of-Gradle"));
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
