package dev.terrace.objects.evaluation.graph;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/// The categories of a profile's features, with the number of features of each in the data set
/// ego-Facebook.
///
/// A feature has a number: those of the first category come first.
enum Category {
    // These are searched by, in this order: who works at X, and lives in Y, and went to school Z
    // ...
    EMPLOYER("work;employer;id", 145),
    LOCATION("location;id", 75),
    SCHOOL("education;school;id", 357),
    HOMETOWN("hometown;id", 72),
    CONCENTRATION("education;concentration;id", 98),
    // And these are not.
    BIRTHDAY("birthday", 40),
    CLASSES("education;classes;id", 25),
    DEGREE("education;degree;id", 24),
    EDUCATION_TYPE("education;type", 3),
    EDUCATION_WITH("education;with;id", 14),
    YEAR("education;year;id", 34),
    FIRST_NAME("first_name", 71),
    GENDER("gender", 2),
    LANGUAGES("languages;id", 29),
    LAST_NAME("last_name", 154),
    LOCALE("locale", 10),
    MIDDLE_NAME("middle_name", 10),
    NAME("name", 3),
    POLITICAL("political", 1),
    RELIGION("religion", 1),
    WORK_END("work;end_date", 43),
    WORK_FROM("work;from;id", 2),
    WORK_LOCATION("work;location;id", 49),
    POSITION("work;position;id", 63),
    PROJECTS("work;projects;id", 12),
    WORK_START("work;start_date", 65),
    WORK_WITH("work;with;id", 4);

    /// How many of the first categories are searched by.
    static final int SEARCHED = 5;

    /// All of them, which `values()` would copy each time.
    static final List<Category> ALL = List.of(values());

    private static final Map<String, Category> BY_NAME = new HashMap<>();
    private static final int[] FIRST = new int[ALL.size() + 1];
    private static final int[] FIRST_WORD = new int[ALL.size() + 1];

    static {
        for (Category category : ALL) {
            BY_NAME.put(category.nameInData, category);
            FIRST[category.ordinal() + 1] = FIRST[category.ordinal()] + category.features;
            FIRST_WORD[category.ordinal() + 1] = FIRST_WORD[category.ordinal()] + category.words();
        }
    }

    /// As in the data set's files.
    final String nameInData;

    /// How many features there are.
    final int features;

    Category(String nameInData, int features) {
        this.nameInData = nameInData;
        this.features = features;
    }

    /// The category that the data set calls so.
    ///
    /// @throws IllegalArgumentException if there is none
    static Category named(String nameInData) {
        Category category = BY_NAME.get(nameInData);
        if (category == null) {
            throw new IllegalArgumentException("there is no category " + nameInData);
        }
        return category;
    }

    /// The category of a feature.
    static Category of(int feature) {
        int at = Arrays.binarySearch(FIRST, feature);
        return ALL.get(at >= 0 ? at : -at - 2);
    }

    /// How many features all categories have.
    static int featuresOfAll() {
        return FIRST[ALL.size()];
    }

    /// The number of its first feature.
    int first() {
        return FIRST[ordinal()];
    }

    /// The number of its first word among those of all categories, one after the other.
    int firstWord() {
        return FIRST_WORD[ordinal()];
    }

    /// How many words all categories have.
    static int wordsOfAll() {
        return FIRST_WORD[ALL.size()];
    }

    /// How many 64-bit words hold a bit for each feature.
    int words() {
        return (features + Long.SIZE - 1) / Long.SIZE;
    }
}
