package dev.terrace.objects.evaluation.graph;

import java.io.IOException;
import java.util.Arrays;

/// People that can be searched, wherever they are.
///
/// @param <P> what a person is read by
abstract class People<P> implements AutoCloseable {
    /// The person with this number, perhaps only until the next one is asked for.
    abstract P person(int number);

    /// The numbers of the friends of the person with this number, for this class to read only.
    abstract int[] friends(int number);

    /// 64 bits of the features of a category that is searched by.
    abstract long features(P person, Category category, int word);

    /// The numbers of somebody's friends who have all of these features.
    final int[] friendsWith(int number, Feature[] features) {
        int[] friends = friends(number);
        int[] found = new int[friends.length];
        int count = 0;
        for (int friend : friends) {
            if (hasAll(person(friend), features)) {
                found[count++] = friend;
            }
        }
        return Arrays.copyOf(found, count);
    }

    private boolean hasAll(P person, Feature[] features) {
        for (Feature feature : features) {
            if ((features(person, feature.category, feature.word) & feature.mask) == 0) {
                return false;
            }
        }
        return true;
    }

    @Override
    public void close() throws IOException {}

    /// A feature, and where its bit is.
    ///
    /// @param category of those that are searched by
    /// @param word of the category's words
    /// @param mask the bit
    record Feature(Category category, int word, long mask) {
        /// The feature with this number.
        static Feature of(int number) {
            Category category = Category.of(number);
            int bit = number - category.first();
            return new Feature(category, bit >>> 6, 1L << bit);
        }
    }
}
