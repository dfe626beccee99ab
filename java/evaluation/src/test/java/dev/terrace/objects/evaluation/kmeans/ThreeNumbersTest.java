package dev.terrace.objects.evaluation.kmeans;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;

import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.run.GcPauses;
import dev.terrace.objects.evaluation.run.Jvm;
import dev.terrace.objects.evaluation.run.Memory;
import dev.terrace.objects.evaluation.run.Outcome;
import dev.terrace.objects.evaluation.run.Phase;
import dev.terrace.objects.evaluation.run.Spread;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;

class ThreeNumbersTest {
    private static final GcPauses NO_GC = new GcPauses(0, 0, 0, 0);

    /// Five rounds, all the same.
    private static SourceRuns runs(Source source, long resident, double... iterations) {
        List<Phase> phases = new ArrayList<>(List.of(new Phase(KMeans.LOAD, 1, 1, NO_GC)));
        for (double seconds : iterations) {
            phases.add(new Phase(KMeans.ITERATION, seconds, seconds, NO_GC));
        }
        KMeansJob.Result result =
                new KMeansJob.Result(phases, NO_GC, new KMeans.Clusters(1, new double[0], 0));
        Outcome<KMeansJob.Result> outcome = new Outcome<>(result, new Memory(0, resident, 0));
        Jvm jvm = Jvm.of(Jvm.Collector.G1).heap(512);
        return new SourceRuns(source, jvm, Collections.nCopies(5, outcome));
    }

    private static ThreeNumbers three(SourceRuns... runs) {
        Spread pools = new Spread(Collections.nCopies(5, 30.0));
        Spread binary = new Spread(Collections.nCopies(5, 10.0));
        return new ThreeNumbers(4, pools, binary, 100, List.of(runs));
    }

    private final SourceRuns text = runs(Source.TEXT_CACHED, 400, 9, 1, 1, 1);
    private final SourceRuns binary = runs(Source.BINARY_CACHED, 300, 1, 2, 2, 3);
    private final SourceRuns pmem = runs(Source.ALL_PMEM, 200, 3, 1, 1, 0.5);

    private static List<String> verdicts(ThreeNumbers three) {
        return new ThreeReport(three).claims().stream().map(Claim::verdict).toList();
    }

    @Test
    void eachNumberHasTheBaselineThatIsBestThen() {
        ThreeNumbers three = three(text, binary, pmem);
        assertEquals(13, three.first(text).median());
        assertEquals(19, three.first(binary).median());
        assertEquals(36.5, three.first(pmem).median());
        assertSame(text, three.best(three::first));
        assertSame(binary, three.best(SourceRuns::total));
        assertSame(text, three.best(ThreeNumbers::laterIteration));
        assertEquals(2, ThreeNumbers.laterIteration(binary).median());
    }

    @Test
    void goalsAreThoseOfTheSecondAndTheThird() {
        assertEquals(List.of("reported", "met", "met"), verdicts(three(text, binary, pmem)));
        SourceRuns slow = runs(Source.ALL_PMEM, 200, 3, 1.5, 1.5, 2);
        assertEquals(
                List.of("reported", "missed: 1.18 times the goal", "missed: 1.50 times the goal"),
                verdicts(three(text, binary, slow)));
    }

    /// Pools are memory, too, where tmpfs stands in for persistent memory.
    @Test
    void aBaselineThatTakesLessMemoryIsNoBaseline() {
        SourceRuns larger = runs(Source.ALL_PMEM, 201, 3, 1, 1, 0.5);
        ThreeNumbers three = three(text, binary, larger);
        assertNull(three.doubt(text));
        assertEquals(
                "binary + cached RDD takes less memory than ALL-PMEM with its pools",
                three.doubt(binary));
        assertEquals("not judged: " + three.doubt(binary), verdicts(three).get(1));
        assertEquals("met", verdicts(three).get(2));
    }

    @Test
    void aHeapThatIsTooSmallIsNoResult() {
        SourceRuns none = new SourceRuns(Source.ALL_PMEM, pmem.jvm(), List.of());
        assertEquals(Collections.nCopies(3, "not measured"), verdicts(three(text, binary, none)));
        assertSame(
                binary,
                three(new SourceRuns(Source.TEXT_CACHED, text.jvm(), List.of()), binary, pmem)
                        .best(ThreeNumbers::laterIteration));
    }
}
