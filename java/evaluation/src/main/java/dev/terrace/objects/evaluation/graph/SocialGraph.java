package dev.terrace.objects.evaluation.graph;

/// People with friends and features.
///
/// @param friends of each person: their numbers, from 0, in ascending order; friendship is mutual
/// @param features of each person: their numbers ([Category]), in ascending order
record SocialGraph(int[][] friends, int[][] features) {
    /// How many people there are.
    int people() {
        return friends.length;
    }

    /// How many pairs are friends.
    int edges() {
        int ends = 0;
        for (int[] some : friends) {
            ends += some.length;
        }
        return ends / 2;
    }
}
