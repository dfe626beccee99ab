package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Spread;
import java.util.List;
import java.util.function.ToDoubleFunction;

/// The measurements of searches that look at images.
///
/// @param graph which graph
/// @param people of all copies
/// @param liveMib what packed people take on the heap, without images
/// @param budgetMib what each process may take, with all that it brings into memory
/// @param runs of each layout
record ImageMeasurements(
        String graph,
        int people,
        double liveMib,
        int budgetMib,
        List<ImageMeasurements.Runs> runs) {
    /// Copies the list.
    ImageMeasurements {
        runs = List.copyOf(runs);
    }

    /// MiB of all images.
    double imagesMib() {
        return (double) people * Image.BYTES / (1 << 20);
    }

    /// The runs of a layout.
    Runs of(ImageLayout layout) {
        return runs.stream().filter(some -> some.layout() == layout).findFirst().orElseThrow();
    }

    /// The runs of a layout.
    ///
    /// @param heapMib its heap
    /// @param pmemBytes in use in persistent memory
    /// @param outcomes one of each round; none if its heap was too small
    record Runs(
            ImageLayout layout,
            int heapMib,
            long pmemBytes,
            List<Outcome<ImageJob.Result>> outcomes,
            int searches) {
        /// Copies the list.
        Runs {
            outcomes = List.copyOf(outcomes);
        }

        /// Whether its heap was large enough.
        boolean isDone() {
            return !outcomes.isEmpty();
        }

        /// Seconds of a search with the images that it looks at.
        Spread search() {
            return spread(result -> result.search().seconds() / searches);
        }

        /// Images that a search looks at.
        Spread images() {
            return spread(result -> (double) result.images() / searches);
        }

        /// Bytes that the system reads from storage for each image that is looked at.
        Spread bytesRead() {
            return spread(result -> (double) result.bytesRead() / Math.max(1, result.images()));
        }

        /// The share of the time for which the garbage collector stopped the process.
        Spread stopped() {
            return spread(result -> result.search().gc().seconds() / result.search().seconds());
        }

        private Spread spread(ToDoubleFunction<ImageJob.Result> of) {
            return Spread.of(outcomes.stream().map(Outcome::result).mapToDouble(of).toArray());
        }
    }
}
