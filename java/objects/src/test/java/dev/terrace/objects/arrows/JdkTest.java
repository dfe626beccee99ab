package dev.terrace.objects.arrows;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Locale;
import java.util.stream.Stream;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileObject;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// What the guide says of older JDKs: sources are compiled against their API.
class JdkTest {
    @TempDir private Path dir;

    /// The errors in sources of a release of Java. Nothing is written.
    private static List<String> errors(int release, List<Path> sources) throws IOException {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        DiagnosticCollector<JavaFileObject> found = new DiagnosticCollector<>();
        String jspecify =
                Stream.of(System.getProperty("java.class.path").split(File.pathSeparator))
                        .filter(each -> each.contains("jspecify"))
                        .findFirst()
                        .orElseThrow();
        List<String> options =
                List.of(
                        "--release",
                        String.valueOf(release),
                        "-proc:none",
                        "-XDshould-stop.ifNoError=FLOW",
                        "--module-path",
                        jspecify);
        try (StandardJavaFileManager files =
                compiler.getStandardFileManager(found, Locale.ROOT, null)) {
            var units = files.getJavaFileObjectsFromPaths(sources);
            compiler.getTask(new StringWriter(), files, found, options, null, units).call();
        }
        return found.getDiagnostics().stream()
                .filter(each -> each.getKind() == Diagnostic.Kind.ERROR)
                .map(each -> each.getMessage(Locale.ROOT))
                .toList();
    }

    @Test
    void nothingOfTheApiIsNewerThanJava22() throws IOException {
        try (Stream<Path> sources = Files.walk(Path.of("src", "main", "java"))) {
            List<Path> all = sources.filter(each -> each.toString().endsWith(".java")).toList();
            assertTrue(all.size() > 150, () -> all.size() + " files");
            assertEquals(List.of(), errors(22, all));
        }
    }

    @Test
    void java21HasNoFinalApiOfForeignMemory() throws IOException {
        Path source = dir.resolve("A.java");
        Files.writeString(source, "class A { java.lang.foreign.MemorySegment memory; }");
        String said = errors(21, List.of(source)).toString();
        assertTrue(said.contains("MemorySegment is a preview API and is disabled"), said);
        assertEquals(List.of(), errors(22, List.of(source)));
    }
}
