package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Job;
import dev.terrace.objects.evaluation.run.Meter;
import dev.terrace.objects.evaluation.run.Phase;
import dev.terrace.objects.evaluation.run.StorageReads;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.IntStream;

/// Searches people, with one constraint, with two, and so on, in turn, and looks at the images of a
/// tenth of those that are found.
///
/// @param graph the file that the heap is loaded from
/// @param queries asked again and again
/// @param first so many searches before anything is measured, so that code is compiled and memory
///   is full of images
/// @param searches that are measured
record ImageJob(
        ImageLayout layout,
        Path graph,
        Path pmem,
        Path disk,
        int people,
        List<Query> queries,
        int first,
        int searches)
        implements Job<ImageJob.Result> {
    /// Of how many answers the image of one is looked at.
    private static final int ONE_OF = 10;

    private static final long SEED = 10;

    /// The result of the job.
    ///
    /// @param open how long it took until people could be searched
    /// @param search the measured searches
    /// @param images how many of them were looked at meanwhile
    /// @param bytesRead what the system read from storage meanwhile
    /// @param found a sum over all answers and images
    record Result(Phase open, Phase search, long images, long bytesRead, long found) {}

    @Override
    public Result run() throws Exception {
        Meter meter = new Meter();
        try (ImageLayout.Opened opened =
                meter.phase("open", () -> layout.open(graph, pmem, disk, people))) {
            Searching searching = new Searching(opened, queries);
            searching.all(first);
            long imagesBefore = searching.seen;
            long readBefore = StorageReads.now();
            meter.phase(
                    "searches",
                    () -> {
                        searching.all(searches);
                        return searching;
                    });
            return new Result(
                    meter.phases().get(0),
                    meter.phases().get(1),
                    searching.seen - imagesBefore,
                    StorageReads.now() - readBefore,
                    searching.found);
        }
    }

    /// Searches, one after the other. The images that are looked at are drawn anew each time a
    /// question is asked again, and are the same on all layouts.
    private static final class Searching {
        private final ImageLayout.Opened opened;
        private final List<List<SearchJob.Constrained>> all;
        private final SplittableRandom random = new SplittableRandom(SEED);
        private int done;
        private long seen;
        private long found;

        Searching(ImageLayout.Opened opened, List<Query> queries) {
            this.opened = opened;
            all =
                    IntStream.rangeClosed(1, Category.SEARCHED)
                            .mapToObj(constraints -> SearchJob.constrained(queries, constraints))
                            .toList();
        }

        void all(int searches) throws IOException {
            for (int end = done + searches; done < end; done++) {
                List<SearchJob.Constrained> some = all.get(done % all.size());
                search(some.get(done / all.size() % some.size()));
            }
        }

        private void search(SearchJob.Constrained query) throws IOException {
            int[] friends = opened.people().friendsWith(query.person(), query.features());
            for (int friend : friends) {
                found = found * 31 + friend;
                if (random.nextInt(ONE_OF) == 0) {
                    found = found * 31 + Image.sum(opened.images().image(friend));
                    seen++;
                }
            }
        }
    }
}
