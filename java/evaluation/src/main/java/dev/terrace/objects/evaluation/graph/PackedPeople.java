package dev.terrace.objects.evaluation.graph;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/// People on the heap as a careful programmer has them there: the words of all features of a person
/// are one array, so that a friend is one step away, as it is in a pool.
final class PackedPeople extends People<long[]> {
    private final long[][] features;
    private final int[][] friends;

    /// Loads them from the graph's file.
    PackedPeople(Path graph) throws IOException {
        List<long[]> allFeatures = new ArrayList<>();
        List<int[]> allFriends = new ArrayList<>();
        GraphFile.read(
                graph,
                (_, some, has) -> {
                    allFriends.add(some);
                    allFeatures.add(words(has));
                });
        features = allFeatures.toArray(long[][]::new);
        friends = allFriends.toArray(int[][]::new);
    }

    private static long[] words(int[] has) {
        long[] words = new long[Category.wordsOfAll()];
        for (int number : has) {
            Feature feature = Feature.of(number);
            words[feature.category().firstWord() + feature.word()] |= feature.mask();
        }
        return words;
    }

    @Override
    long[] person(int number) {
        return features[number];
    }

    @Override
    int[] friends(int number) {
        return friends[number];
    }

    @Override
    long features(long[] person, Category category, int word) {
        return person[category.firstWord() + word];
    }
}
