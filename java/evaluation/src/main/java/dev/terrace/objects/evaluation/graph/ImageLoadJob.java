package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;
import java.nio.file.Path;

/// Stores people with images for later processes.
///
/// @param graph the file that they are loaded from
record ImageLoadJob(ImageLayout layout, Path graph, Path pmem, Path disk, int people)
        implements Job<Phase> {
    @Override
    public Phase run() throws Exception {
        Meter meter = new Meter();
        meter.phase(
                LoadJob.LOAD,
                () -> {
                    layout.load(graph, pmem, disk, people);
                    return layout;
                });
        return meter.phases().getFirst();
    }
}
