package dev.terrace.objects.evaluation.graph;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import dev.terrace.objects.evaluation.run.GcPauses;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Memory;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Phase;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class PlentifulHeapTest {
    /// Rounds of two phases of a second each, of which collections took so much of the first.
    private static LayoutRuns runs(Layout layout, double... stopped) {
        Phase phase = phase(0);
        List<Outcome<SearchJob.Result>> searches =
                Arrays.stream(stopped)
                        .mapToObj(seconds ->
                                new Outcome<>(
                                        new SearchJob.Result(
                                                phase,
                                                phase(1),
                                                List.of(phase(seconds), phase),
                                                List.of(),
                                                0,
                                                List.of(),
                                                0),
                                        new Memory(0, 0, 0)))
                        .toList();
        Jvm jvm = Jvm.of(Jvm.Collector.G1);
        return new LayoutRuns(layout, jvm, List.of(), searches, Stored.NOTHING);
    }

    private static Phase phase(double stopped) {
        return new Phase("phase", 1, 1, new GcPauses(1, stopped / 2, 1, stopped / 2));
    }

    @Test
    void theShareOfCollectionsIsThatOfTheMeasuredSearches() {
        LayoutRuns runs = runs(Layout.PACKED, 0.1, 0.3);
        assertEquals(0.1, runs.gcShare(), 1e-12);
        assertEquals(List.of(0.05, 0.15), runs.gcShares().values());
        assertEquals(2, runs.fullCollections());
    }

    @Test
    void aHeapIsPlentifulIfCollectionsTakeLittleOfEachRound() {
        LayoutRuns select = runs(Layout.SELECT_PMEM, 0, 0.039);
        assertNull(GraphSection.doubt(List.of(runs(Layout.PACKED, 0.01, 0.02), select)));
        assertEquals(
                "collections stopped heap objects, packed for 2.00 % of the time",
                GraphSection.doubt(List.of(select, runs(Layout.PACKED, 0, 0.04, 0))));
        assertNull(GraphSection.doubt(List.of(runs(Layout.PACKED))));
    }
}
