package dev.terrace.objects.evaluation.report;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import javax.xml.parsers.DocumentBuilderFactory;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.w3c.dom.Document;

class ReportTest {
    private static final List<String> ORDER = List.of("first", "second");

    @TempDir Path directory;

    private static Section section(String id, double value) {
        return new Section(
                id,
                "About " + id,
                List.of("Some text."),
                new Conditions("a machine", "25", "2026-01-01", "evaluation --only " + id, true),
                List.of(new Table("Numbers", List.of("a", "b"), List.of(List.of("1", "x|y")))),
                List.of(Figure.of(chart(id))),
                List.of(Claim.exact(id + " is fast", "twice", "so much", value, 0.5)),
                JsonNodeFactory.instance.objectNode().put("value", value));
    }

    private static Chart chart(String id) {
        return new Chart(
                id + "-chart",
                "Times of <" + id + ">",
                "s",
                false,
                List.of("one", "two"),
                List.of(
                        new Chart.Series("here", List.of(1.0, 3.0)),
                        new Chart.Series("there", Arrays.asList(2.0, null))));
    }

    private String page() throws IOException {
        return Files.readString(directory.resolve("OBJECTS-EVALUATION.md"));
    }

    @Test
    void sectionsOfEarlierRunsStayAndTheirOrderIsThatOfThePage() throws IOException {
        new Report(directory, ORDER).add(section("second", 0.4));
        new Report(directory, ORDER).add(section("first", 2));
        new Report(directory, ORDER).add(section("second", 0.7));
        String page = page();
        assertTrue(page.indexOf("## About first") < page.indexOf("## About second"), page);
        assertTrue(
                page.contains(
                        "| first is fast | twice | so much | at most 0.500 | missed: 4.00 times the"
                                + " goal |"),
                page);
        assertTrue(
                page.contains(
                        "| second is fast | twice | so much | at most 0.500 | missed: 1.40 times"
                                + " the goal |"),
                page);
        assertTrue(page.contains("| 1 | x\\|y |"), page);
        assertTrue(page.contains("](evaluation/first-chart.svg)"), page);
    }

    @Test
    void verdictsAreComputed() {
        assertEquals("met", Claim.exact("w", "p", "o", 0.5, 0.5).verdict());
        assertEquals("missed: 1.20 times the goal", Claim.exact("w", "p", "o", 0.6, 0.5).verdict());
        assertEquals("reported", Claim.exact("w", "p", "o", 0.6, null).verdict());
        assertEquals("not measured", Claim.unmeasured("w", "p", "o", 0.5).verdict());
    }

    @Test
    void noGoalIsJudgedByAMeasurementThatIsInDoubt() {
        for (double value : List.of(0.1, 0.9)) {
            assertEquals(
                    "not judged: it rained",
                    Claim.exact("w", "p", "o", value, 0.5).doubted("it rained").verdict());
        }
        assertEquals(
                "not measured",
                Claim.unmeasured("w", "p", "o", 0.5).doubted("it rained").verdict());
        assertEquals(
                "reported", Claim.exact("w", "p", "o", 1, null).doubted("it rained").verdict());
    }

    @Test
    void aGoalWithinTheSpreadIsNeitherMetNorMissed() {
        assertEquals("met", verdict(0.1, 0.2, 0.3, 0.4, 0.5));
        assertEquals("within the spread", verdict(0.1, 0.2, 0.51, 0.3, 0.4));
        assertEquals("within the spread", verdict(0.9, 0.8, 0.5, 0.7, 0.6));
        assertEquals("missed: 1.60 times the goal", verdict(0.9, 0.8, 0.51, 0.7, 1));
        assertEquals("open: 4 rounds, not 5", verdict(0.1, 0.1, 0.1, 0.1));
        assertEquals("open: 1 round, not 5", verdict(9));
    }

    private static String verdict(double... rounds) {
        return Claim.measured("w", "p", Spread.of(rounds), 0.5).verdict();
    }

    @Test
    void ratiosAreThoseOfTheSameRound() {
        assertEquals(List.of(0.5, 2.0), Spread.of(1, 8).over(Spread.of(2, 4)).values());
        assertThrows(IllegalArgumentException.class, () -> Spread.of(1).over(Spread.of(1, 2)));
        assertEquals(List.of(3.0, 12.0), Spread.of(1, 8).plus(Spread.of(2, 4)).values());
        assertThrows(IllegalArgumentException.class, () -> Spread.of(1).plus(Spread.of(1, 2)));
    }

    @Test
    void anEvaluationThatIsNoneIsNamed() throws IOException {
        Files.createDirectories(directory.resolve("evaluation"));
        Path file =
                Files.writeString(
                        directory.resolve("evaluation/evaluation.json"), "{\"sections\": 5}");
        String message =
                assertThrows(IOException.class, () -> new Report(directory, ORDER)).getMessage();
        assertTrue(
                message.startsWith(file + " is no evaluation of this version; move it away"),
                message);
    }

    @Test
    void tablesAndChartsOfUnequalLengthsAreRefused() {
        assertThrows(
                IllegalArgumentException.class,
                () -> new Table("t", List.of("a", "b"), List.of(List.of("1"))));
        assertThrows(
                IllegalArgumentException.class,
                () ->
                        new Chart(
                                "c",
                                "t",
                                "s",
                                true,
                                List.of("one"),
                                List.of(new Chart.Series("s", List.of(1.0, 2.0)))));
    }

    /// Two bars, one bar, two squares of the legend, and the white below.
    @Test
    void plotsAreXmlWithABarForEachNumber() throws Exception {
        new Report(directory, ORDER).add(section("first", 1));
        Document plot =
                DocumentBuilderFactory.newInstance()
                        .newDocumentBuilder()
                        .parse(directory.resolve("evaluation/first-chart.svg").toFile());
        assertEquals(6, plot.getElementsByTagName("rect").getLength());
        assertTrue(plot.getDocumentElement().getTextContent().contains("Times of <first>, s"));
    }

    @Test
    void linesHaveAPointForEachNumber() {
        Chart bars = chart("x");
        String plot = Plot.of(new Chart("lines", "Lines", "s", true, bars.groups(), bars.series()));
        assertEquals(3, plot.split("<circle", -1).length - 1);
        assertEquals(1, plot.split("stroke-width=\"2\"", -1).length - 1);
    }
}
