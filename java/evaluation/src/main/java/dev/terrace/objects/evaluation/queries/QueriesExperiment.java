package dev.terrace.objects.evaluation.queries;

import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Repeated;
import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.run.HeapExhaustedException;
import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Scratch;
import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.evaluation.spark.Answer;
import dev.terrace.objects.evaluation.spark.LocalSpark;
import java.io.IOException;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;

/// Ten queries like those of TPC-H on tables of the format `terrace`, on Parquet in the page cache,
/// and on cached DataFrames.
public final class QueriesExperiment implements Experiment {
    private static final int WARM_UPS = 3;
    private static final int RUNS = 5;
    private static final Jvm JVM = Jvm.of(Jvm.Collector.G1).with(LocalSpark.FLAGS);

    @Override
    public Section run(Settings settings) throws IOException, InterruptedException {
        // All tables lie in persistent memory, or what stands in for it: in a file system in memory
        // all of a file is in the page cache.
        try (Scratch scratch = Scratch.in(settings.pmem(), settings.disk())) {
            return QueriesSection.of(settings, new Measuring(settings, scratch).all());
        }
    }

    /// The work, one process after the other.
    private static final class Measuring {
        private final Settings settings;
        private final Scratch scratch;
        private final int warmUps;
        private final int runs;
        private final Map<Query, Answer> answers = new EnumMap<>(Query.class);

        Measuring(Settings settings, Scratch scratch) {
            this.settings = settings;
            this.scratch = scratch;
            warmUps = settings.isQuick() ? 0 : WARM_UPS;
            runs = settings.isQuick() ? 1 : RUNS;
        }

        QueriesMeasurements all() throws IOException, InterruptedException {
            settings.progress().accept("queries: writing tables of scale " + settings.scale());
            GenerateJob job = new GenerateJob(settings.scale(), scratch.pmem(), scratch.disk());
            Map<Storage, Long> bytes = run(job, GenerateJob.Result.class).result().bytes();
            Map<Storage, Repeated<Outcome<QueriesJob.Result>>> all = new EnumMap<>(Storage.class);
            for (Storage storage : Storage.values()) {
                all.put(storage, new Repeated<>(storage.title, () -> once(storage)));
            }
            Repeated.all(settings, "queries", List.copyOf(all.values()));
            Map<Storage, Spread> resident = new EnumMap<>(Storage.class);
            Map<Storage, Map<Query, Spread>> seconds = new EnumMap<>(Storage.class);
            all.forEach((storage, repeated) -> {
                resident.put(storage, spread(repeated, outcome -> outcome.memory().residentPeak()));
                Map<Query, Spread> ofQueries = new EnumMap<>(Query.class);
                for (Query query : Query.values()) {
                    ofQueries.put(
                            query,
                            spread(repeated, outcome -> outcome.result().seconds().get(query)));
                }
                seconds.put(storage, ofQueries);
            });
            return new QueriesMeasurements(
                    settings.scale(),
                    warmUps,
                    runs,
                    bytes,
                    all.get(Storage.CACHED).results().getLast().result().cachedBytes(),
                    resident,
                    seconds);
        }

        private static <T> Spread spread(Repeated<T> repeated, ToDoubleFunction<T> number) {
            return Spread.of(repeated.results().stream().mapToDouble(number).toArray());
        }

        private Outcome<QueriesJob.Result> once(Storage storage)
                throws IOException, InterruptedException {
            QueriesJob job = new QueriesJob(storage, scratch.pmem(), scratch.disk(), warmUps, runs);
            Outcome<QueriesJob.Result> outcome = run(job, QueriesJob.Result.class);
            compare(storage, outcome.result().answers());
            return outcome;
        }

        private <R> Outcome<R> run(Job<R> job, Class<R> result)
                throws IOException, InterruptedException {
            try {
                return settings.processes().run(JVM, job, result);
            } catch (HeapExhaustedException e) {
                throw new IOException(
                        "this machine has too little memory for tables of scale "
                                + settings.scale()
                                + ": try less with --scale",
                        e);
            }
        }

        /// @throws IllegalStateException if others have been found before
        private void compare(Storage storage, Map<Query, Answer> found) {
            List<Query> different = new ArrayList<>();
            found.forEach((query, answer) -> {
                Answer before = answers.putIfAbsent(query, answer);
                if (before != null && !answer.isAbout(before)) {
                    different.add(query);
                }
            });
            if (!different.isEmpty()) {
                throw new IllegalStateException(
                        storage.title
                                + ": "
                                + different
                                + " found other rows than on the tables before");
            }
        }
    }
}
