package dev.terrace.objects.evaluation.graph;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.evaluation.run.GcPauses;
import dev.terrace.objects.evaluation.run.Phase;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;

class AnswersTest {
    private static SearchJob.Result found(long first, long... all) {
        Phase phase = new Phase("phase", 1, 1, new GcPauses(0, 0, 0, 0));
        List<Long> sums = Arrays.stream(all).boxed().toList();
        return new SearchJob.Result(phase, phase, List.of(), List.of(), first, sums, 0);
    }

    @Test
    void aLayoutThatFindsOthersIsNamed() {
        Answers answers = new Answers();
        answers.check(Layout.HEAP, found(1, 2, 3));
        answers.check(Layout.MAPDB, found(1, 7));
        answers.check(Layout.ALL_PMEM, found(1, 2, 3));
        for (SearchJob.Result other : List.of(found(5, 2, 3), found(1, 2, 4))) {
            String message =
                    assertThrows(
                                    IllegalStateException.class,
                                    () -> answers.check(Layout.SELECT_PMEM, other))
                            .getMessage();
            assertTrue(message.startsWith("SELECT-PMEM has found other people"), message);
        }
        assertThrows(IllegalStateException.class, () -> answers.check(Layout.MAPDB, found(2, 7)));
    }

    @Test
    void aFreshProcessThatFindsOthersIsNamed() {
        Answers answers = new Answers();
        answers.check(Layout.HEAP, new CurveJob.Result(List.of(), 1));
        answers.check(Layout.PACKED, new CurveJob.Result(List.of(), 1));
        String message =
                assertThrows(
                                IllegalStateException.class,
                                () ->
                                        answers.check(
                                                Layout.ALL_PMEM, new CurveJob.Result(List.of(), 2)))
                        .getMessage();
        assertTrue(message.startsWith("ALL-PMEM has found other people"), message);
    }
}
