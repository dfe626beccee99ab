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

    @TempDir Path directory;

    private Path pmem = Path.of("");

    private final StringWriter out = new StringWriter();
    private final StringWriter err = new StringWriter();

    /// A disk, which has to write each change, takes a hundred times as long.
    @BeforeEach
    void makePmem() throws IOException {
        pmem =
                Files.createTempDirectory(
                        Files.isDirectory(DEV_SHM) ? DEV_SHM : directory,
                        "terrace-evaluation-test");
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
        List<String> all =
                Stream.concat(
                                Stream.of(
                                        "--quick",
                                        "--pmem",
                                        pmem.toString(),
                                        "--disk",
                                        disk.toString(),
                                        "--out",
                                        report().toString()),
                                Stream.of(arguments))
                        .toList();
        return Evaluation.run(
                _ -> new InThisProcess(),
                new PrintWriter(out, true),
                new PrintWriter(err, true),
                all.toArray(String[]::new));
    }

    private Path report() {
        return directory.resolve("docs");
    }

    /// That all layouts find the same is what the experiment itself looks at.
    @Test
    void graphSearchIsMeasuredOnAllLayoutsAndReported() throws IOException {
        assertEquals(0, run("--only", "graph"), err::toString);
        for (String layout :
                List.of(
                        "heap objects",
                        "heap objects, packed",
                        "heap + Java serialization",
                        "MapDB",
                        "ALL-PMEM",
                        "SELECT-PMEM",
                        "SELECT-PMEM in columns")) {
            assertTrue(out.toString().contains("| " + layout + " |"), layout);
        }
        String page = Files.readString(report().resolve("OBJECTS-EVALUATION.md"));
        assertTrue(page.contains("30–40 % less"), page);
        JsonNode section = section();
        assertEquals("graph", section.at("/id").asText());
        assertEquals(7, section.at("/measured/plain").size());
        assertEquals(8, section.at("/measured/plentiful").size());
        assertEquals(4, section.at("/measured/curves").size());
        for (JsonNode seconds : section.at("/measured/curves").findValues("rounds")) {
            assertEquals(4, seconds.get(0).size());
            assertTrue(seconds.at("/0/3").asDouble() > seconds.at("/0/0").asDouble());
        }
        assertTrue(page.contains("| layout | 1 | 10 | 100 | 1,000 |"), page);
        assertTrue(page.contains("| SELECT-PMEM | heap objects, packed |"), page);
        assertTrue(page.contains("](evaluation/graph-curve.svg)"), page);
        for (JsonNode figure : section.at("/figures")) {
            assertTrue(
                    Files.exists(
                            report().resolve(
                                            "evaluation/" + figure.at("/name").asText() + ".svg")));
        }
        assertTrue(
                isEmpty(pmem) && isEmpty(directory.resolve("disk")), "something was left behind");
    }

    /// That all layouts find the same people and images is what the experiment itself looks at.
    @Test
    void searchesWithImagesAreMeasuredAndReported() throws IOException {
        assertEquals(0, run("--only", "images"), err::toString);
        JsonNode measured = section().at("/measured");
        assertEquals(3, measured.at("/runs").size());
        for (JsonNode runs : measured.at("/runs")) {
            assertTrue(runs.at("/outcomes/0/result/images").asLong() > 0, runs::toString);
        }
        assertTrue(measured.at("/runs/2/pmemBytes").asLong() > 0);
        assertTrue(out.toString().contains("| SELECT-PMEM, images on disk | 64 |"), out::toString);
        assertTrue(
                out.toString().contains("not judged: only root can limit memory"), out::toString);
        assertTrue(
                isEmpty(pmem) && isEmpty(directory.resolve("disk")), "something was left behind");
    }

    /// That all sources lead to the same clusters is what the experiment itself looks at.
    @Test
    void kMeansIsMeasuredFromAllSourcesAndReported() throws IOException {
        assertEquals(0, run("--only", "kmeans", "--rows", "3000"), err::toString);
        for (String source :
                List.of(
                        "text, parsed again in each step",
                        "text + cached RDD",
                        "binary + cached RDD",
                        "Parquet + cached DataFrame",
                        "table in persistent memory",
                        "ALL-PMEM (DurableRDD)")) {
            assertTrue(out.toString().contains("| " + source + " |"), source);
        }
        JsonNode measured = section().at("/measured");
        assertEquals(7, measured.at("/runs").size());
        JsonNode three = measured.at("/three");
        assertEquals(3, three.at("/runs").size());
        assertTrue(three.at("/poolImport/values/0").asDouble() > 0);
        assertTrue(three.at("/binaryImport/values/0").asDouble() > 0);
        assertTrue(out.toString().contains("| median of iterations 2 to 3 |"), out::toString);
        assertTrue(out.toString().contains("k-means, a later process in total"), out::toString);
        for (JsonNode run : measured.at("/runs")) {
            assertEquals(3000, run.at("/outcomes/0/result/clusters/rows").asLong());
        }
        assertTrue(
                out.toString().contains("| pauses of young collections, s | 226 | 159 | 0.703 |"),
                out::toString);
        assertTrue(
                isEmpty(pmem) && isEmpty(directory.resolve("disk")), "something was left behind");
    }

    @Test
    void openingIsMeasuredBesideLoading() throws IOException {
        assertEquals(0, run("--only", "reopen", "--rows", "1000"), err::toString);
        JsonNode measured = section().at("/measured");
        assertEquals(2, measured.at("/openings").size());
        assertEquals(2, measured.at("/loadSeconds").size());
        assertTrue(
                out.toString().contains("| opening a pool that was closed, ms |"), out::toString);
    }

    @Test
    void theSurfaceIsDrawnAndPmemWinsAsRecomputationGrows() throws IOException {
        assertEquals(0, run("--only", "surface"), err::toString);
        assertTrue(Files.readString(report().resolve("evaluation/surface.svg")).startsWith("<svg"));
        assertTrue(
                out.toString().contains("DRAM DRAM becomes PMEM PMEM | at most 0 | met |"),
                out::toString);
    }

    @Test
    void placementIsPredictedAndMeasured() throws IOException {
        assertEquals(0, run("--only", "placement"), err::toString);
        JsonNode fields = section().at("/measured/warm/0/fields");
        assertEquals(3, fields.size());
        assertEquals("PMEM", fields.get(0).at("/tier").asText());
        assertEquals("SSD", fields.get(2).at("/tier").asText());
        assertTrue(section().at("/measured/warm/0/movedBytes").asLong() >= 200 * 10_000);
        assertTrue(
                isEmpty(pmem) && isEmpty(directory.resolve("disk")), "something was left behind");
    }

    /// That all kinds of tables give the same answers is what the experiment itself looks at.
    @Test
    void queriesAreMeasuredOnAllKindsOfTablesAndReported() throws IOException {
        assertEquals(0, run("--only", "queries", "--scale", "0.001"), err::toString);
        JsonNode measured = section().at("/measured");
        assertEquals(0.001, measured.at("/scale").asDouble());
        for (String storage : List.of("TERRACE", "PARQUET_SNAPPY", "PARQUET_PLAIN", "CACHED")) {
            assertTrue(measured.at("/bytes/" + storage).asLong() > 0, storage);
            assertEquals(10, measured.at("/seconds/" + storage).size(), storage);
            assertTrue(measured.at("/seconds/" + storage + "/Q6/values/0").asDouble() > 0);
        }
        assertTrue(out.toString().contains("| at most 1.30 | open: 1 round, not 5 |"));
        assertTrue(Files.exists(report().resolve("evaluation/queries.svg")));
        assertTrue(
                isEmpty(pmem) && isEmpty(directory.resolve("disk")), "something was left behind");
    }

    @Test
    void changesOfRowsAreMeasuredAndReported() throws IOException {
        assertEquals(0, run("--only", "changes", "--rows", "3000"), err::toString);
        JsonNode measured = section().at("/measured");
        assertEquals(3000, measured.at("/rows").asInt());
        assertEquals(4, measured.at("/changeSeconds").size());
        assertTrue(measured.at("/scanSeconds/MERGE_SCATTERED/values/0").asDouble() > 0);
        assertTrue(out.toString().contains("| DELETE, scattered |"), out::toString);
        assertTrue(out.toString().contains("| at most 1.00 | not measured |"), out::toString);
        assertTrue(
                isEmpty(pmem) && isEmpty(directory.resolve("disk")), "something was left behind");
    }

    private JsonNode section() throws IOException {
        return Json.MAPPER
                .readTree(report().resolve("evaluation/evaluation.json").toFile())
                .at("/sections/0");
    }

    private boolean isEmpty(Path where) throws IOException {
        try (Stream<Path> files = Files.list(where)) {
            return files.findAny().isEmpty();
        }
    }

    @Test
    void anotherArchiveIsRefusedByItsSum() throws IOException {
        Path archive =
                Files.writeString(directory.resolve("ego-facebook.tar.gz"), "something else");
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
        assertTrue(err.toString().contains("--only chess: there is kmeans, graph"), err::toString);
        assertEquals(2, run("--runs", "0"));
        assertTrue(err.toString().contains("--runs 0: it is at least 1"), err::toString);
        for (String scale : List.of("0", "-1", "NaN", "2000")) {
            assertEquals(2, run("--scale", scale));
        }
        assertTrue(
                err.toString().contains("--scale 2000.0: it is more than 0 and at most 1000"),
                err::toString);
    }
}
