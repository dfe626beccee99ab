package dev.terrace.objects.evaluation.graph;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PackedPeopleTest {
    private final SocialGraph graph = SyntheticGraph.make();

    @TempDir Path directory;

    /// Of two copies, so that numbers of the second are not those of the graph.
    @Test
    void eachPersonHasTheFriendsAndFeaturesOfTheGraph() throws IOException {
        Path file = directory.resolve("graph");
        GraphFile.write(file, graph, 2);
        try (PackedPeople people = new PackedPeople(file)) {
            for (int number = 0; number < 2 * graph.people(); number++) {
                int person = number % graph.people();
                int first = number - person;
                assertArrayEquals(
                        Arrays.stream(graph.friends()[person]).map(i -> first + i).toArray(),
                        people.friends(number));
                long[] words = people.person(number);
                int bits = Arrays.stream(words).mapToInt(Long::bitCount).sum();
                assertEquals(graph.features()[person].length, bits);
                for (int feature : graph.features()[person]) {
                    People.Feature at = People.Feature.of(feature);
                    assertEquals(
                            at.mask(),
                            people.features(words, at.category(), at.word()) & at.mask());
                }
            }
        }
    }

    @Test
    void categoriesHaveWordsOfTheirOwn() {
        int next = 0;
        for (Category category : Category.ALL) {
            assertEquals(next, category.firstWord());
            next += category.words();
        }
        assertEquals(Category.wordsOfAll(), next);
    }
}
