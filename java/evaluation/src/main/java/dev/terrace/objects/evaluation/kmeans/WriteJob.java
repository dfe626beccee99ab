package dev.terrace.objects.evaluation.kmeans;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;

/// Writes the files that all else is made of.
///
/// @param rows how many points
record WriteJob(PointFiles files, int rows) implements Job<Phase> {
    @Override
    public Phase run() throws Exception {
        Meter meter = new Meter();
        meter.phase(
                "write",
                () -> {
                    files.write(rows);
                    return rows;
                });
        return meter.phases().getFirst();
    }
}
