package dev.terrace.objects.evaluation.graph;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.junit.jupiter.api.Test;

class BreakEvenTest {
    private static final List<Integer> COUNTS = List.of(1, 10, 100, 1000);
    private static final List<Double> LOADED = List.of(2.0, 2.0, 2.0, 3.0);

    private static String breakEven(double... ours) {
        return BreakEven.of(COUNTS, List.of(ours[0], ours[1], ours[2], ours[3]), LOADED).toString();
    }

    @Test
    void whoNeverTakesMoreTimeAlwaysIsAhead() {
        assertEquals("always", breakEven(1, 1, 1, 2));
        assertEquals("always", breakEven(2, 2, 2, 3));
    }

    @Test
    void whoAlwaysTakesMoreTimeIsAheadForNone() {
        assertEquals("none", breakEven(2.1, 2.1, 2.1, 3.1));
    }

    @Test
    void changesLieOnTheLineBetweenTwoCounts() {
        assertEquals("up to 400", breakEven(1, 1, 1, 5));
        assertEquals("from 700 on", breakEven(3, 3, 4, 2));
        assertEquals("up to 1", breakEven(2, 4, 4, 5));
        assertEquals("from 1,000 on", breakEven(3, 3, 3, 3));
        assertEquals("up to 4, from 70 on", breakEven(1.5, 3, 1.5, 2));
    }

    @Test
    void unequalNumbersOfTimesAreRefused() {
        for (List<Double> ours : List.of(List.<Double>of(), List.of(1.0), List.of(1.0, 2.0, 3.0))) {
            assertThrows(
                    IllegalArgumentException.class,
                    () -> BreakEven.of(List.of(1, 10), ours, List.of(1.0, 2.0)));
        }
        assertThrows(
                IllegalArgumentException.class,
                () -> BreakEven.of(List.of(), List.of(), List.of()));
    }

    @Test
    void roundsAndMediansAreComparedAlike() {
        List<Integer> counts = List.of(1, 101);
        CurveRuns pool =
                new CurveRuns(
                        Layout.SELECT_PMEM,
                        counts,
                        List.of(List.of(1.0, 5.0), List.of(1.0, 3.0), List.of(3.0, 5.0)));
        CurveRuns heap =
                new CurveRuns(
                        Layout.HEAP,
                        counts,
                        List.of(List.of(2.0, 4.0), List.of(2.0, 4.0), List.of(2.0, 4.0)));
        assertEquals("up to 51", pool.against(heap).toString());
        assertEquals(
                List.of("up to 51", "always", "none"),
                pool.roundsAgainst(heap).stream().map(BreakEven::toString).toList());
    }
}
