package dev.terrace.objects.evaluation;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import dev.terrace.objects.evaluation.run.Json;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class EvaluationTest {
    private static final Path DEV_SHM = Path.of("/dev/shm");

    @TempDir
    Path directory;

    private Path pmem = Path.of("");

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    /// A disk, which has to write each change, takes a hundred times as long.
    @BeforeEach
    void makePmem() throws IOException {
        pmem = Files.createTempDirectory(Files.isDirectory(DEV_SHM) ? DEV_SHM : directory, "terrace-evaluation-test");
    }

    @AfterEach
    void removePmem() throws IOException {
        // Also if something was left behind there, which is a failure of its own.
        try (Stream<Path> files = Files.walk(pmem)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    private int run(String... arguments) throws IOException {
        Path disk = Files.createDirectories(directory.resolve("disk"));
        List<String> all = Stream.concat(
                        Stream.of("--quick", "--pmem", pmem.toString(), "--disk", disk.toString(), "--out", report().toString()),
                        Stream.of(arguments))
                .toList();
        return Evaluation.run(
                _ -> new InThisProcess(), new PrintWriter(out, true), new PrintWriter(err, true), all.toArray(String[]::new));
    }

    private Path report() {
        return directory.resolve("docs");
    }

    /// That all layouts find the same is what the experiment itself looks at.
    @Test
    void graphSearchIsMeasuredOnAllLayoutsAndReported() throws IOException {
        assertEquals(0, run("--only", "graph"), err::toString);
        for (String layout : List.of("heap objects", "heap + Java serialization", "MapDB", "ALL-PMEM", "SELECT-PMEM")) {
            assertTrue(out.toString().contains("| " + layout + " |"), layout);
        }
        String page = Files.readString(report().resolve("OBJECTS-EVALUATION.md"));
        assertTrue(page.contains("30–40 % less"), page);
        JsonNode section = Json.MAPPER.readTree(report().resolve("evaluation/evaluation.json").toFile()).at("/sections/0");
        assertEquals("graph", section.at("/id").asText());
        assertEquals(5, section.at("/measured/plain").size());
        for (JsonNode figure : section.at("/figures")) {
            assertTrue(Files.exists(report().resolve("evaluation/" + figure.at("/name").asText() + ".svg")));
        }
        assertTrue(isEmpty(pmem) && isEmpty(directory.resolve("disk")), "something was left behind");
    }

    private boolean isEmpty(Path where) throws IOException {
        try (Stream<Path> files = Files.list(where)) {
            return files.findAny().isEmpty();
        }
    }

    @Test
    void anotherArchiveIsRefusedByItsSum() throws IOException {
        Path archive = Files.writeString(directory.resolve("ego-facebook.tar.gz"), "something else");
        assertEquals(8, run("--only", "graph", "--data", archive.toString()));
        assertTrue(err.toString().contains(archive + " is not the archive"), err::toString);
        assertTrue(err.toString().contains("7ce16f295d8d"), err::toString);
        assertFalse(Files.exists(report()));
    }

    @Test
    void anArchiveThatIsNotThereIsNamed() throws IOException {
        assertEquals(8, run("--only", "graph", "--data", directory.resolve("nowhere").toString()));
        assertTrue(err.toString().contains("nowhere: NoSuchFileException"), err::toString);
    }

    @Test
    void optionsThatMakeNoSenseAreRefused() throws IOException {
        assertEquals(2, run("--only", "chess"));
        assertTrue(err.toString().contains("--only chess: there is graph"), err::toString);
        assertEquals(2, run("--runs", "0"));
        assertTrue(err.toString().contains("--runs 0: it is at least 1"), err::toString);
    }
}
