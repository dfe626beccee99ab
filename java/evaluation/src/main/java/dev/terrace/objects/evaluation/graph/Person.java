package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.Durable;
import dev.terrace.objects.FixedLength;
import java.io.Serializable;

/// Somebody with friends and binary features, as the data set gives them: a bit for each feature,
/// by category.
///
/// Subclasses say where the features lie that nobody searches by.
@Durable
abstract class Person implements Serializable {
    private static final long serialVersionUID = 1;

    int number;
    int[] friends = {};

    @FixedLength(3)
    long[] employer = new long[3];

    @FixedLength(2)
    long[] location = new long[2];

    @FixedLength(6)
    long[] school = new long[6];

    @FixedLength(2)
    long[] hometown = new long[2];

    @FixedLength(2)
    long[] concentration = new long[2];

    /// The features that nobody searches by.
    abstract Details details();

    /// The bits of a category's features.
    final long[] features(Category category) {
        return switch (category) {
            case EMPLOYER -> employer;
            case LOCATION -> location;
            case SCHOOL -> school;
            case HOMETOWN -> hometown;
            case CONCENTRATION -> concentration;
            default -> details().features(category);
        };
    }

    /// Adds a feature.
    final void add(int feature) {
        Category category = Category.of(feature);
        int bit = feature - category.first();
        features(category)[bit >>> 6] |= 1L << bit;
    }
}
