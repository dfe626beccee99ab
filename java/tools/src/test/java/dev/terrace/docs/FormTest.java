package dev.terrace.docs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.FileVisitResult;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

/// The form of all sources and pages of the Java part. The formatter wraps code and markdown
/// comments; this test finds the lines that it leaves long, such as those of text blocks.
class FormTest {
    private static final Path JAVA = Path.of("..").toAbsolutePath().normalize();
    private static final int CODE_COLUMNS = 100;
    private static final int TEXT_COLUMNS = 120;
    private static final Pattern TEXT =
            Pattern.compile(".*\\.(md|sh|xml|py|gradle|properties)|Makefile");

    /// What was written by hand, by its path in `java`.
    private static TreeMap<String, List<String>> files() throws IOException {
        TreeMap<String, List<String>> files = new TreeMap<>();
        Files.walkFileTree(
                JAVA,
                new SimpleFileVisitor<>() {
                    @Override
                    public FileVisitResult preVisitDirectory(
                            Path directory, BasicFileAttributes attributes) {
                        return directory.endsWith("target")
                                ? FileVisitResult.SKIP_SUBTREE
                                : FileVisitResult.CONTINUE;
                    }

                    @Override
                    public FileVisitResult visitFile(Path file, BasicFileAttributes attributes)
                            throws IOException {
                        if (columns(file.toString()) < Integer.MAX_VALUE) {
                            files.put(JAVA.relativize(file).toString(), Files.readAllLines(file));
                        }
                        return FileVisitResult.CONTINUE;
                    }
                });
        return files;
    }

    /// How long lines of this file may be.
    private static int columns(String file) {
        String name = file.substring(file.lastIndexOf('/') + 1);
        if (name.endsWith(".java")) {
            return CODE_COLUMNS;
        }
        return TEXT.matcher(name).matches() && !name.equals("ARCHITECTURE.md")
                ? TEXT_COLUMNS
                : Integer.MAX_VALUE;
    }

    /// Rows of tables and lines with an address cannot be broken.
    private static boolean isTooLong(String file, String line) {
        boolean isBreakable = !line.startsWith("|") && !line.contains("://");
        return (isBreakable || file.endsWith(".java"))
                && line.codePointCount(0, line.length()) > columns(file);
    }

    @Test
    void linesAreNoLongerThanTheyMayBe() throws IOException {
        List<String> found = new ArrayList<>();
        files().forEach((file, lines) -> {
            for (int i = 0; i < lines.size(); i++) {
                if (isTooLong(file, lines.get(i))) {
                    found.add(file + ":" + (i + 1) + ": " + lines.get(i));
                }
            }
        });
        assertEquals(List.of(), found, "lines that are too long");
    }

    @Test
    void aLongLineIsFound() throws IOException {
        assertTrue(isTooLong("a/Some.java", " ".repeat(100) + "x"));
        assertTrue(!isTooLong("a/Some.java", "ä".repeat(100)));
        assertTrue(isTooLong("docs/PAGE.md", "x".repeat(121)));
        assertTrue(!isTooLong("docs/PAGE.md", "|" + "x".repeat(121)));
        assertTrue(!isTooLong("docs/PAGE.md", "https://example.org/" + "x".repeat(121)));
        assertTrue(files().size() > 500, "the sources are read");
        assertTrue(files().containsKey("docs/GUIDE.md"), "the pages are read");
    }
}
