package dev.terrace.objects.evaluation.report;

import com.fasterxml.jackson.core.JsonProcessingException;
import dev.terrace.objects.evaluation.run.Json;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/// All that was measured: `evaluation.json`, and what is made of it, a page in Markdown with a plot
/// in a file of its own for each chart.
public final class Report {
    private static final String DATA = "evaluation/evaluation.json";
    private static final String PAGE = "OBJECTS-EVALUATION.md";
    static final String PLOTS = "evaluation";

    private final Path directory;

    /// By number: the order of the page.
    private final Map<Integer, Section> sections = new TreeMap<>();

    private final List<String> order;

    /// The data of a report.
    ///
    /// @param sections as the page has them
    private record Data(List<Section> sections) {}

    /// The report in this directory, with what was measured before.
    ///
    /// @param order of sections, by id
    /// @throws IOException if what is there cannot be read
    public Report(Path directory, List<String> order) throws IOException {
        this.directory = directory;
        this.order = List.copyOf(order);
        Path file = directory.resolve(DATA);
        if (Files.exists(file)) {
            try {
                Json.MAPPER.readValue(file.toFile(), Data.class).sections().forEach(this::put);
            } catch (JsonProcessingException e) {
                throw new IOException(
                        file
                                + " is no evaluation of this version; move it away to begin anew: "
                                + e.getOriginalMessage(),
                        e);
            }
        }
    }

    private void put(Section section) {
        int number = order.indexOf(section.id());
        if (number < 0) {
            throw new IllegalArgumentException("there is no experiment " + section.id());
        }
        sections.put(number, section);
    }

    /// Adds a section, or replaces the one that there was, and writes all files.
    public void add(Section section) throws IOException {
        put(section);
        write();
    }

    private void write() throws IOException {
        Path plots = Files.createDirectories(directory.resolve(PLOTS));
        for (Section section : sections.values()) {
            for (Figure figure : section.figures()) {
                if (figure.svg() != null) {
                    replace(plots.resolve(figure.name() + ".svg"), figure.svg());
                }
            }
        }
        replace(directory.resolve(PAGE), page());
        replace(
                directory.resolve(DATA),
                Json.MAPPER.writeValueAsString(new Data(List.copyOf(sections.values()))) + "\n");
    }

    /// So that whoever is stopped meanwhile leaves the file as it was.
    private static void replace(Path file, String text) throws IOException {
        Path next = file.resolveSibling(file.getFileName() + ".new");
        Files.writeString(next, text);
        Files.move(next, file, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.ATOMIC_MOVE);
    }

    private String page() {
        Markdown page = new Markdown();
        page.heading(1, "Evaluation");
        page.paragraph(
                "The evaluation of \"Tiered Object Storage using Persistent Memory\" (2018),"
                    + " section 4, done again with Terrace Objects: the same work on several"
                    + " layouts, side by side, each measurement in a Java process of its own. This"
                    + " page is generated from `evaluation.json`, which has every number; verdicts"
                    + " are computed from them.");
        page.paragraph(
                "Measurements are made in rounds: in each round all layouts are measured once, one"
                    + " after the other. A ratio is that of two measurements of the same round; of"
                    + " several rounds there are the median and, in brackets, the least and the"
                    + " most. A goal is *met* if it is met in each of at least "
                        + Claim.ROUNDS_MIN
                        + " rounds, and *missed* if it is met in none. If it is met in some, it"
                        + " lies *within the spread*, and nothing is decided. It is *not judged* if"
                        + " the measurement was not made as it asks for. A part of this page that"
                        + " was measured at another time has a date and a command of its own.");
        page.heading(2, "Claims");
        page.table(
                new Table(
                        "What the paper or the design states, and what was measured",
                        Claim.COLUMNS,
                        sections.values().stream()
                                .flatMap(section -> section.claims().stream())
                                .map(Claim::row)
                                .toList()));
        for (Section section : sections.values()) {
            section.show(page);
        }
        return page.toString();
    }
}
