package dev.terrace.objects.evaluation.graph;

import java.util.BitSet;
import java.util.stream.Stream;

/// A graph to which friendships and features are added in any order, any number of times.
final class GraphBuilder {
    private final BitSet[] friends;
    private final BitSet[] features;
    private int edges;

    /// A graph of so many people, who have neither yet.
    GraphBuilder(int people) {
        friends = sets(people);
        features = sets(people);
    }

    private static BitSet[] sets(int count) {
        return Stream.generate(BitSet::new).limit(count).toArray(BitSet[]::new);
    }

    /// Has two people be friends.
    void befriend(int one, int other) {
        if (one != other && !friends[one].get(other)) {
            friends[one].set(other);
            friends[other].set(one);
            edges++;
        }
    }

    /// Gives somebody a feature.
    void add(int person, int feature) {
        features[person].set(feature);
    }

    /// How many pairs are friends.
    int edges() {
        return edges;
    }

    /// The graph so far.
    SocialGraph build() {
        return new SocialGraph(numbers(friends), numbers(features));
    }

    private static int[][] numbers(BitSet[] sets) {
        return Stream.of(sets).map(set -> set.stream().toArray()).toArray(int[][]::new);
    }
}
