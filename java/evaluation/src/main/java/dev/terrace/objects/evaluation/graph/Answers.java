package dev.terrace.objects.evaluation.graph;

import java.util.List;
import org.jspecify.annotations.Nullable;

/// The results of layouts, which must be equal.
final class Answers {
    private @Nullable Long first;
    private @Nullable List<Long> all;
    private @Nullable Long curve;

    /// Compares what a layout has found with what those before have. Slow ones are only asked the
    /// first questions.
    ///
    /// @throws IllegalStateException if it is not the same
    void check(Layout layout, SearchJob.Result result) {
        if (first != null && first != result.found()) {
            throw different(layout);
        }
        first = result.found();
        if (!layout.isSlow) {
            if (all != null && !all.equals(result.foundByAll())) {
                throw different(layout);
            }
            all = result.foundByAll();
        }
    }

    /// The same of fresh processes.
    void check(Layout layout, CurveJob.Result result) {
        if (curve != null && curve != result.found()) {
            throw different(layout);
        }
        curve = result.found();
    }

    private static IllegalStateException different(Layout layout) {
        return new IllegalStateException(
                layout.title + " has found other people than the layouts before");
    }
}
