package dev.terrace.docs;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/// The library as a newcomer has it: published with GUIDE.md's command, from a copy of its sources,
/// under a home directory that holds nothing else. Once for all tests, as it takes half a minute.
final class PublishedLibrary implements AutoCloseable {
    /// Gives it to tests.
    static final class Once implements ParameterResolver {
        @Override
        public boolean supportsParameter(ParameterContext parameter, ExtensionContext extension) {
            return parameter.getParameter().getType() == PublishedLibrary.class;
        }

        @Override
        public Object resolveParameter(ParameterContext parameter, ExtensionContext extension) {
            PublishedLibrary library =
                    extension
                            .getRoot()
                            .getStore(ExtensionContext.Namespace.GLOBAL)
                            .computeIfAbsent(
                                    PublishedLibrary.class,
                                    key -> publish(),
                                    PublishedLibrary.class);
            if (library.failure != null) {
                throw library.failure;
            }
            return library;
        }
    }

    static final Path ROOT = Path.of("..", "..").toAbsolutePath().normalize();
    static final String COMMAND = "make publish-local";

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

    private final Path dir;

    /// That of the command, for each test that wants the library.
    private @Nullable AssertionError failure;

    private PublishedLibrary(Path dir) {
        this.dir = dir;
    }

    private static PublishedLibrary publish() {
        try {
            PublishedLibrary library =
                    new PublishedLibrary(Files.createTempDirectory("terrace-published-"));
            library.writeSettings();
            try {
                library.shell().run(library.copyOfSources("terrace"), COMMAND);
            } catch (AssertionError e) {
                library.failure = e;
            }
            return library;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(e);
        }
    }

    private void writeSettings() throws IOException {
        String url = Path.of(System.getProperty("terrace.repository")).toUri().toString();
        Files.writeString(
                Files.createDirectories(home().resolve(".m2")).resolve("settings.xml"),
                SETTINGS.formatted(
                        REPOSITORY.formatted("repository", url),
                        REPOSITORY.formatted("pluginRepository", url)));
    }

    private Path home() {
        return dir.resolve("home");
    }

    /// The newcomer's: nothing that it runs writes into the user's directory, and it knows nothing
    /// of a `make` that runs this test.
    Shell shell() {
        return new Shell(dir.resolve("output"))
                .with("MAKEFLAGS", "")
                .with("ARGS", "")
                .with("HOME", home().toString())
                .with("MAVEN_OPTS", "-Duser.home=" + home());
    }

    /// Where the library was published.
    Path repository() {
        return home().resolve(".m2/repository");
    }

    /// What of the sources the library is made of, in a new folder of this name.
    Path copyOfSources(String name) throws IOException {
        Path copy = Files.createDirectories(dir.resolve(name));
        for (Path file : sources()) {
            Path to = copy.resolve(ROOT.relativize(file));
            Files.createDirectories(to.getParent());
            Files.copy(file, to, StandardCopyOption.COPY_ATTRIBUTES);
        }
        return copy;
    }

    private static List<Path> sources() throws IOException {
        try (Stream<Path> modules = Files.list(ROOT.resolve("java"))) {
            return Stream.concat(
                            Stream.of("LICENSE", "Makefile", "scripts", "java/Makefile")
                                    .map(ROOT::resolve),
                            Stream.concat(Stream.of(ROOT.resolve("java")), modules)
                                    .flatMap(module ->
                                            Stream.of(
                                                    module.resolve("pom.xml"),
                                                    module.resolve("src/main"))))
                    .filter(Files::exists)
                    .flatMap(PublishedLibrary::files)
                    .toList();
        }
    }

    /// All files of a directory, at any depth; a file itself.
    static Stream<Path> files(Path of) {
        try (Stream<Path> files = Files.walk(of)) {
            return files.filter(Files::isRegularFile).toList().stream();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void close() throws IOException {
        List<Path> all;
        try (Stream<Path> files = Files.walk(dir)) {
            all = files.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path file : all) {
            Files.delete(file);
        }
    }
}
