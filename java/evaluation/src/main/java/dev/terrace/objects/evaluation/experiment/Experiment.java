package dev.terrace.objects.evaluation.experiment;

import dev.terrace.objects.evaluation.report.Section;
import java.io.IOException;

/// A part of the evaluation.
public interface Experiment {
    /// Does it.
    ///
    /// @throws IOException if it could not be done
    /// @throws IllegalStateException if layouts that were to find the same did not
    Section run(Settings settings) throws IOException, InterruptedException;
}
