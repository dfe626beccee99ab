package dev.terrace.objects.evaluation.changes;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.run.Forks;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class ChangesTest {
    private static final int ROWS = 2000;
    private static final int HUNDREDTH = ROWS / 100;

    @TempDir private Path directory;

    private static Map<Change, Spread> seconds(double each) {
        Map<Change, Spread> seconds = new EnumMap<>(Change.class);
        for (Change change : Change.values()) {
            seconds.put(change, new Spread(Collections.nCopies(5, each)));
        }
        return seconds;
    }

    /// Rows, sum of ids and sum of amounts after each change, as a map has them.
    private static List<List<Double>> model(int passes) {
        Map<Integer, Double> amounts = new TreeMap<>();
        for (int id = 0; id < ROWS; id++) {
            amounts.put(id, id * 0.25);
        }
        List<List<Double>> all = new ArrayList<>();
        for (int pass = 0; pass < passes; pass++) {
            int number = pass;
            amounts.keySet().removeIf(id -> id / HUNDREDTH == number);
            all.add(summary(amounts));
            amounts.keySet().removeIf(id -> id % 100 == number);
            all.add(summary(amounts));
            for (int i = 0; i < HUNDREDTH; i++) {
                double amount = i * 0.5;
                amounts.computeIfPresent(i + ROWS / 2 + pass * HUNDREDTH, (_, _) -> amount);
            }
            all.add(summary(amounts));
            for (int i = 0; i < HUNDREDTH; i++) {
                double amount = i * 0.5;
                amounts.computeIfPresent(i * 100 + 50 + pass, (_, _) -> amount);
            }
            all.add(summary(amounts));
        }
        return all;
    }

    private static List<Double> summary(Map<Integer, Double> amounts) {
        return List.of(
                (double) amounts.size(),
                amounts.keySet().stream().mapToDouble(id -> id).sum(),
                amounts.values().stream().mapToDouble(amount -> amount).sum());
    }

    @Test
    void statementsChangeWhatAModelChanges() throws Exception {
        Path table = directory.resolve("table");
        ChangesJob.Result result = new ChangesJob(ROWS, table, directory, 1, 1).run();
        assertEquals(
                model(2),
                result.scans().stream()
                        .map(scan -> List.copyOf(scan.rows().getFirst().subList(0, 3)))
                        .toList());
        assertTrue(result.bytes() > 0);
        assertTrue(result.changeSeconds().values().stream().allMatch(seconds -> seconds > 0));
        assertFalse(Files.exists(table));
    }

    @Test
    void aStatementCountsWithItsScan() throws IOException {
        Map<Change, Spread> changes = seconds(1);
        changes.put(Change.MERGE_SCATTERED, Spread.of(5, 3, 3, 3, 3));
        Spread first = new Spread(Collections.nCopies(5, 0.5));
        ChangesMeasurements measured =
                new ChangesMeasurements(10_000_000, 2, 3, first, changes, seconds(1), 3 << 20);
        assertEquals(4, measured.inScans(Change.DELETE_CLUSTERED).median());
        assertEquals(12, measured.inScans(Change.MERGE_SCATTERED).max());
        Settings settings =
                new Settings(
                        "make bench-objects",
                        null,
                        1,
                        1,
                        0.25,
                        5,
                        false,
                        Path.of("."),
                        Path.of("."),
                        new Forks(Duration.ofSeconds(1)),
                        _ -> {});
        Section section = ChangesSection.of(settings, measured);
        assertEquals(
                List.of("not measured", "reported"),
                section.claims().stream().map(Claim::verdict).distinct().toList());
        String page = section.toMarkdown();
        assertTrue(page.contains("A table of 10,000,000 rows"), page);
        assertTrue(page.contains("| DELETE, clustered | 1000 | 1000 | 4.00 |"), page);
    }
}
