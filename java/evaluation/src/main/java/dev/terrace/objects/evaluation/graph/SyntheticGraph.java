package dev.terrace.objects.evaluation.graph;

import java.util.Random;

/// A graph of the shape of ego-Facebook, for who has not got that: as many people and friendships,
/// ten of them with hundreds of friends who mostly know each other, and as many features by
/// category, a few of which most people share.
final class SyntheticGraph {
    /// People of each circle around one of the ten, as the data set's files have them.
    private static final int[] CIRCLES = {347, 1045, 792, 755, 547, 227, 59, 159, 42, 66};

    private static final int EDGES = 88_234;

    /// The share of people with a feature of a category that is searched by, and of any other
    /// category; in the data set it is 1 % to 98 %.
    private static final double HAS_SEARCHED = 0.35;

    private static final double HAS_OTHER = 0.30;
    private static final long SEED = 2018;

    private SyntheticGraph() {}

    /// Makes it: the same each time.
    static SocialGraph make() {
        Random random = new Random(SEED);
        int people = 0;
        for (int circle : CIRCLES) {
            people += circle;
        }
        GraphBuilder graph = new GraphBuilder(people);
        int begin = 0;
        for (int circle : CIRCLES) {
            for (int friend = begin + 1; friend < begin + circle; friend++) {
                graph.befriend(begin, friend);
            }
            // Circles know of each other by somebody.
            graph.befriend(begin, random.nextInt(people));
            begin += circle;
        }
        befriendWithinCircles(graph, random);
        for (int person = 0; person < people; person++) {
            addFeatures(graph, person, random);
        }
        return graph.build();
    }

    private static void befriendWithinCircles(GraphBuilder graph, Random random) {
        while (graph.edges() < EDGES) {
            int begin = 0;
            for (int circle : CIRCLES) {
                // The larger a circle, the more friends somebody has in it.
                for (int i = 0; i < circle && graph.edges() < EDGES; i++) {
                    graph.befriend(begin + random.nextInt(circle), begin + random.nextInt(circle));
                }
                begin += circle;
            }
        }
    }

    private static void addFeatures(GraphBuilder graph, int person, Random random) {
        for (Category category : Category.ALL) {
            double has = category.ordinal() < Category.SEARCHED ? HAS_SEARCHED : HAS_OTHER;
            if (random.nextDouble() < has) {
                // The first features are by far the most frequent ones.
                double rank = Math.pow(category.features, random.nextDouble()) - 1;
                graph.add(person, category.first() + (int) rank);
            }
        }
    }
}
