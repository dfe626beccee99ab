package dev.terrace.objects.evaluation.changes;

import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Conditions;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.report.Table;
import dev.terrace.objects.evaluation.run.Json;
import dev.terrace.objects.evaluation.run.Spread;
import java.io.IOException;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/// The report's section on changes.
final class ChangesSection {
    private static final double MIB = 1 << 20;
    private static final double MILLIS = 1e3;
    private static final double GOAL = 1;
    private static final String NO_OTHER = "there is neither of them for Spark 4.2";

    private ChangesSection() {}

    static Section of(Settings settings, ChangesMeasurements measured) throws IOException {
        return new Section(
                "changes",
                "Statements that change few rows of a table",
                text(measured, Files.getFileStore(settings.pmem()).type()),
                Conditions.now(settings.command(), null),
                List.of(times(measured)),
                List.of(),
                claims(measured),
                Json.MAPPER.valueToTree(measured));
    }

    private static List<String> text(ChangesMeasurements measured, String fileSystem) {
        return List.of(
                String.format(
                        Locale.ROOT,
                        "A table of %,d rows, in the order of their ids; each statement deletes or"
                                + " updates a hundredth of them, next to each other or each"
                                + " hundredth, and others each time. Then the table is scanned. A"
                                + " process makes the table, and runs the four statements, each"
                                + " with its scan, %d times to warm up and %d times that count; of"
                                + " each the median counts. Rows that earlier statements have"
                                + " deleted stay in the files, which have %s MiB in the end (%s).",
                        measured.rows(),
                        measured.warmUps(),
                        measured.runs(),
                        Spread.number(measured.bytes() / MIB),
                        fileSystem),
                "Delta Lake with deletion vectors and Iceberg with merge-on-read are not measured:"
                        + " there is no build of either for Spark 4.2. Iceberg 1.12.0 for Spark 4.1"
                        + " does not load there (`IncompatibleClassChangeError`).");
    }

    private static Table times(ChangesMeasurements measured) {
        List<List<String>> rows = new ArrayList<>();
        rows.add(List.of("before all statements", "–", millis(measured.firstScanSeconds()), "1"));
        for (Change change : Change.values()) {
            rows.add(
                    List.of(
                            change.title,
                            millis(measured.changeSeconds().get(change)),
                            millis(measured.scanSeconds().get(change)),
                            measured.inScans(change).toString()));
        }
        return new Table(
                "Milliseconds of each statement and of the scan that follows, and both in scans of"
                        + " the table as it was; medians, least and most in brackets",
                List.of("", "statement", "scan", "both, in scans"),
                rows);
    }

    private static String millis(Spread seconds) {
        return seconds.times(MILLIS).toString();
    }

    private static List<Claim> claims(ChangesMeasurements measured) {
        List<Claim> claims = new ArrayList<>();
        for (Change change : Change.values()) {
            String what = change.title + ", of 1 % of the rows, with the next scan";
            claims.add(
                    Claim.unmeasured(
                            what + ": a terrace table's time to that of Delta Lake, and of Iceberg",
                            "–",
                            NO_OTHER,
                            GOAL));
            claims.add(
                    Claim.measured(
                            what + ", in scans of the table as it was",
                            "–",
                            measured.inScans(change),
                            null));
        }
        return claims;
    }
}
