package dev.terrace.objects.evaluation.graph;

import java.util.HashMap;
import java.util.Map;

/// Numbers for features that a data set has by name: those of a category follow each other, in the
/// order in which they come.
final class FeatureNumbers {
    private static final String ANONYMOUS = ";anonymized feature ";

    private final Map<String, Integer> numbers = new HashMap<>();
    private final int[] used = new int[Category.ALL.size()];

    /// The number of a feature, of which this is a line such as `127 work;employer;id;anonymized
    /// feature 52`.
    ///
    /// @throws IllegalArgumentException if there is no such category, or it has more features than
    ///   are known
    int of(String line) {
        String name = line.substring(line.indexOf(' ') + 1);
        return numbers.computeIfAbsent(name, _ -> next(name));
    }

    private int next(String name) {
        int end = name.indexOf(ANONYMOUS);
        if (end < 0) {
            throw new IllegalArgumentException("this is no feature: " + name);
        }
        Category category = Category.named(name.substring(0, end));
        int bit = used[category.ordinal()]++;
        if (bit == category.features) {
            throw new IllegalArgumentException(
                    category.nameInData + " has more than " + category.features + " features");
        }
        return category.first() + bit;
    }
}
