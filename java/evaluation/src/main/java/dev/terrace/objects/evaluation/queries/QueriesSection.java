package dev.terrace.objects.evaluation.queries;

import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Chart;
import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Conditions;
import dev.terrace.objects.evaluation.report.Figure;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.report.Table;
import dev.terrace.objects.evaluation.run.Json;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// The report's section on queries.
final class QueriesSection {
    private static final double MIB = 1 << 20;
    private static final double MILLIS = 1e3;
    private static final double PARQUET_GOAL = 0.8;
    private static final double PARQUET_WORST_GOAL = 1.1;
    private static final double CACHED_GOAL = 1.3;

    /// The baselines of a terrace table.
    private static final List<Storage> OTHERS =
            List.of(Storage.PARQUET_SNAPPY, Storage.PARQUET_PLAIN, Storage.CACHED);

    private final QueriesMeasurements measured;

    private QueriesSection(QueriesMeasurements measured) {
        this.measured = measured;
    }

    static Section of(Settings settings, QueriesMeasurements measured) throws IOException {
        QueriesSection section = new QueriesSection(measured);
        return new Section(
                "queries",
                "Queries of tables",
                section.text(Files.getFileStore(settings.pmem()).type()),
                Conditions.now(settings.command(), null),
                List.of(section.times(), section.sizes()),
                List.of(Figure.of(section.chart())),
                section.claims(),
                Json.MAPPER.valueToTree(measured));
    }

    private List<String> text(String fileSystem) {
        return List.of(
                "Ten queries like those of TPC-H (1, 3, 4, 5, 6, 10, 12, 14, 18 and 19, with the"
                        + " parameters that the specification validates them with), in the same SQL"
                        + " on the same rows. The tables are TPC-H-like: columns, numbers of rows"
                        + " and distributions are those of the specification, of scale "
                        + Spread.number(measured.scale())
                        + ", but random numbers and comments are our own. These are no results of"
                        + " the TPC-H benchmark, and cannot be compared with any.",
                "All files lie in the same file system ("
                        + fileSystem
                        + "), those of Parquet in the page cache as a whole. Tables of lines and of"
                        + " orders have as many parts as they have files of Parquet. The cached"
                        + " DataFrame has all columns of uncompressed Parquet in Spark's cache"
                        + " before the first query. No answer comes from a manifest.",
                "Each system runs in a Java process of its own, with G1, a heap as large as Java"
                        + " chooses, and Spark on two threads with its default settings. A process"
                        + " runs all queries one after the other, "
                        + measured.warmUps()
                        + " times to warm up and "
                        + measured.runs()
                        + " times that count; of each query the median counts, from the text of the"
                        + " query to the last row. The rows that all systems find are the same,"
                        + " numbers to 1e-9.");
    }

    private Table times() {
        List<String> columns = new ArrayList<>(List.of("query"));
        for (Storage storage : Storage.values()) {
            columns.add(storage.title);
        }
        OTHERS.forEach(other -> columns.add("to " + other.title));
        List<List<String>> rows = new ArrayList<>();
        for (Query query : Query.values()) {
            List<String> row =
                    new ArrayList<>(List.of(query.name().substring(1) + ", " + query.work));
            for (Storage storage : Storage.values()) {
                row.add(measured.of(storage, query).times(MILLIS).toString());
            }
            OTHERS.forEach(other -> row.add(measured.ratio(other, query).toString()));
            rows.add(row);
        }
        return new Table(
                "Milliseconds of each query, and ratios of the terrace table's to the others';"
                        + " medians, least and most in brackets",
                columns,
                rows);
    }

    private Table sizes() {
        List<List<String>> rows = new ArrayList<>();
        for (Storage storage : Storage.values()) {
            boolean isCached = storage == Storage.CACHED;
            rows.add(
                    List.of(
                            storage.title,
                            mib(measured.bytes().get(storage)),
                            isCached ? mib(measured.cachedBytes()) : "0",
                            measured.residentBytes().get(storage).times(1 / MIB).toString()));
        }
        return new Table(
                "Room of all tables, MiB; what is resident includes mapped pages of files",
                List.of("", "files", "Spark's cache", "resident at most"),
                rows);
    }

    private static String mib(double bytes) {
        return Spread.number(bytes / MIB);
    }

    private Chart chart() {
        List<Chart.Series> series =
                Arrays.stream(Storage.values())
                        .map(storage ->
                                new Chart.Series(
                                        storage.title,
                                        Arrays.stream(Query.values())
                                                .map(query ->
                                                        (@Nullable Double)
                                                                (measured.of(storage, query)
                                                                                .median()
                                                                        * MILLIS))
                                                .toList()))
                        .toList();
        return new Chart(
                "queries",
                "Ten queries like those of TPC-H",
                "ms",
                false,
                Arrays.stream(Query.values()).map(query -> query.name().substring(1)).toList(),
                series);
    }

    private List<Claim> claims() {
        List<Claim> claims = new ArrayList<>();
        for (Storage other : OTHERS) {
            boolean isCached = other == Storage.CACHED;
            claims.add(
                    Claim.measured(
                            "ten queries like those of TPC-H, geometric mean: a terrace table's"
                                    + " time to that of "
                                    + other.title,
                            "–",
                            measured.mean(other),
                            isCached ? CACHED_GOAL : PARQUET_GOAL));
            Spread worst = measured.worst(other);
            claims.add(
                    Claim.measured(
                            "the worst of these queries to the same with " + other.title,
                            "–",
                            worst
                                    + ", most often query "
                                    + measured.worstQuery(other).name().substring(1),
                            worst,
                            isCached ? null : PARQUET_WORST_GOAL));
        }
        return claims;
    }
}
