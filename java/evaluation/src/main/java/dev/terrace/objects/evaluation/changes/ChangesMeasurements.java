package dev.terrace.objects.evaluation.changes;

import dev.terrace.objects.evaluation.run.Spread;
import java.util.Map;

/// The measurements of changes.
///
/// @param rows of the table at first
/// @param warmUps passes over all changes in a process, before those that count
/// @param runs passes that count: of their times each process gives the median
/// @param firstScanSeconds of a scan before the first change, in each round
/// @param changeSeconds of each statement, in each round
/// @param scanSeconds of the scan that follows
/// @param bytes of files after all changes
record ChangesMeasurements(
        long rows,
        int warmUps,
        int runs,
        Spread firstScanSeconds,
        Map<Change, Spread> changeSeconds,
        Map<Change, Spread> scanSeconds,
        long bytes) {

    /// The time of a statement with the scan that follows, to that of a scan before all changes.
    Spread inScans(Change change) {
        return changeSeconds.get(change).plus(scanSeconds.get(change)).over(firstScanSeconds);
    }
}
