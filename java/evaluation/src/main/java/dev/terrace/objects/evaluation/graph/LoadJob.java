package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;
import java.nio.file.Path;

/// Stores people for later processes.
///
/// @param graph the file that they are loaded from
record LoadJob(Layout layout, Path graph, Path pmem, Path disk) implements Job<Phase> {
    static final String LOAD = "load";

    @Override
    public Phase run() throws Exception {
        Meter meter = new Meter();
        meter.phase(
                LOAD,
                () -> {
                    layout.load(graph, pmem, disk);
                    return layout;
                });
        return meter.phases().getFirst();
    }
}
