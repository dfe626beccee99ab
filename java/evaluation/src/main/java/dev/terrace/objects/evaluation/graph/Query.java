package dev.terrace.objects.evaluation.graph;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;

/// A question: which friends of `person` have all of these features? As in "who work at X and live
/// in Y".
///
/// @param person whose friends
/// @param features one of each category that is searched by; a search with n constraints takes the
///   first n
record Query(int person, List<Integer> features) {
    /// Copies its list.
    Query {
        features = List.copyOf(features);
    }

    /// Questions about people of a graph of which there are so many copies, features drawn from
    /// what a friend has where that friend has some: the same each time.
    static List<Query> draw(SocialGraph graph, int copies, int count, long seed) {
        Random random = new Random(seed);
        List<Query> queries = new ArrayList<>();
        while (queries.size() < count) {
            int person = random.nextInt(graph.people());
            int[] friends = graph.friends()[person];
            if (friends.length > 0) {
                int like = friends[random.nextInt(friends.length)];
                List<Integer> features = new ArrayList<>();
                for (Category category : Category.ALL.subList(0, Category.SEARCHED)) {
                    features.add(feature(graph.features()[like], category, random));
                }
                queries.add(new Query(random.nextInt(copies) * graph.people() + person, features));
            }
        }
        return queries;
    }

    private static int feature(int[] has, Category category, Random random) {
        for (int feature : has) {
            if (Category.of(feature) == category) {
                return feature;
            }
        }
        return category.first() + random.nextInt(category.features);
    }
}
