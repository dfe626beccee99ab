package dev.terrace.objects.evaluation.graph;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class SyntheticGraphTest {
    private final SocialGraph graph = SyntheticGraph.make();

    @Test
    void itHasTheDataSetsShape() {
        assertEquals(4039, graph.people());
        assertEquals(88_234, graph.edges());
        assertEquals(1406, Category.featuresOfAll());
        assertTrue(Arrays.stream(graph.friends()).allMatch(friends -> friends.length > 0));
    }

    @Test
    void itIsTheSameEachTime() {
        assertArrayEquals(graph.friends(), SyntheticGraph.make().friends());
        assertArrayEquals(graph.features(), SyntheticGraph.make().features());
    }
}
