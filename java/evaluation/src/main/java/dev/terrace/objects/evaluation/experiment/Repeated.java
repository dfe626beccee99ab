package dev.terrace.objects.evaluation.experiment;

import dev.terrace.objects.evaluation.run.HeapExhaustedException;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/// A measurement that is made once in each round, until its heap turns out to be too small.
///
/// @param <T> a result
public final class Repeated<T> {
    private final String title;
    private final Measurement<T> measurement;
    private final List<T> results = new ArrayList<>();
    private boolean isTooSmall;

    /// A measurement with this title.
    public Repeated(String title, Measurement<T> measurement) {
        this.title = title;
        this.measurement = measurement;
    }

    /// How it is made.
    ///
    /// @param <T> the result
    @FunctionalInterface
    public interface Measurement<T> {
        /// Makes it.
        T make() throws IOException, InterruptedException, HeapExhaustedException;
    }

    /// Makes all of them one after the other, in each round: so that what disturbs the machine for
    /// a while disturbs none of them alone.
    ///
    /// @param experiment whose they are
    public static void all(Settings settings, String experiment, List<? extends Repeated<?>> all)
            throws IOException, InterruptedException {
        for (int round = 1; round <= settings.runs(); round++) {
            for (Repeated<?> one : all) {
                settings.progress().accept(experiment + ": " + one.title + ", round " + round);
                one.once();
            }
        }
    }

    private void once() throws IOException, InterruptedException {
        if (isTooSmall) {
            return;
        }
        try {
            results.add(measurement.make());
        } catch (HeapExhaustedException tooSmall) {
            isTooSmall = true;
        }
    }

    /// The results, one of each round; none if the heap was too small in some round.
    public List<T> results() {
        return isTooSmall ? List.of() : List.copyOf(results);
    }
}
