package dev.terrace.objects.evaluation.queries;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.run.Forks;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Collections;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class QueriesMeasurementsTest {
    private static Spread rounds(double value) {
        return new Spread(Collections.nCopies(5, value));
    }

    private static Map<Query, Spread> seconds(double each) {
        Map<Query, Spread> seconds = new EnumMap<>(Query.class);
        for (Query query : Query.values()) {
            seconds.put(query, rounds(each));
        }
        return seconds;
    }

    /// All queries take half of Parquet's time and a quarter of the cache's, but for two.
    private static QueriesMeasurements measured() {
        Map<Storage, Map<Query, Spread>> seconds = new EnumMap<>(Storage.class);
        Map<Storage, Long> bytes = new EnumMap<>(Storage.class);
        Map<Storage, Spread> resident = new EnumMap<>(Storage.class);
        for (Storage storage : Storage.values()) {
            seconds.put(storage, seconds(storage == Storage.CACHED ? 4 : 2));
            bytes.put(storage, 3L << 20);
            resident.put(storage, rounds(5 << 20));
        }
        Map<Query, Spread> terrace = seconds(1);
        terrace.put(Query.Q4, Spread.of(4, 2, 1, 2, 2));
        terrace.put(Query.Q5, Spread.of(1, 1, 2.1, 1, 1));
        seconds.put(Storage.TERRACE, terrace);
        return new QueriesMeasurements(0.25, 3, 5, bytes, 7 << 20, resident, seconds);
    }

    @Test
    void ratiosAreThoseOfTheSameRound() {
        QueriesMeasurements measured = measured();
        Storage parquet = Storage.PARQUET_PLAIN;
        assertEquals(0.5, measured.ratio(parquet, Query.Q1).median());
        assertEquals(List.of(2.0, 1.0, 1.05, 1.0, 1.0), measured.worst(parquet).values());
        assertEquals(Query.Q4, measured.worstQuery(parquet));
        double second = Math.pow(Math.pow(0.5, 9) * 1, 0.1);
        assertEquals(second, measured.mean(parquet).values().get(1), 1e-12);
        assertEquals(second / 2, measured.mean(Storage.CACHED).values().get(1), 1e-12);
    }

    @Test
    void theSectionHasAVerdictForEachGoal() throws IOException {
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
        Section section = QueriesSection.of(settings, measured());
        assertEquals(
                List.of("met", "within the spread", "met", "within the spread", "met", "reported"),
                section.claims().stream().map(Claim::verdict).toList());
        String page = section.toMarkdown();
        assertTrue(
                page.contains(
                        "| the worst of these queries to the same with Parquet, Snappy | – | 1.00"
                                + " (1.00–2.00), most often query 4 | at most 1.10 |"),
                page);
        assertTrue(page.contains("| 6, forecast of revenue: a scan"), page);
        assertTrue(page.contains("| cached DataFrame | 3.00 | 7.00 | 5.00 |"), page);
        assertTrue(page.contains("The tables are TPC-H-like"), page);
    }
}
