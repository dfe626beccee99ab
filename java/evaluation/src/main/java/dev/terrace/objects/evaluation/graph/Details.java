package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.Durable;
import dev.terrace.objects.FixedLength;
import java.io.Serializable;

/// The features of a person that nobody searches by.
@Durable
class Details implements Serializable {
    private static final long serialVersionUID = 1;

    @FixedLength(1)
    long[] birthday = new long[1];

    @FixedLength(1)
    long[] classes = new long[1];

    @FixedLength(1)
    long[] degree = new long[1];

    @FixedLength(1)
    long[] educationType = new long[1];

    @FixedLength(1)
    long[] educationWith = new long[1];

    @FixedLength(1)
    long[] year = new long[1];

    @FixedLength(2)
    long[] firstName = new long[2];

    @FixedLength(1)
    long[] gender = new long[1];

    @FixedLength(1)
    long[] languages = new long[1];

    @FixedLength(3)
    long[] lastName = new long[3];

    @FixedLength(1)
    long[] locale = new long[1];

    @FixedLength(1)
    long[] middleName = new long[1];

    @FixedLength(1)
    long[] name = new long[1];

    @FixedLength(1)
    long[] political = new long[1];

    @FixedLength(1)
    long[] religion = new long[1];

    @FixedLength(1)
    long[] workEnd = new long[1];

    @FixedLength(1)
    long[] workFrom = new long[1];

    @FixedLength(1)
    long[] workLocation = new long[1];

    @FixedLength(1)
    long[] position = new long[1];

    @FixedLength(1)
    long[] projects = new long[1];

    @FixedLength(2)
    long[] workStart = new long[2];

    @FixedLength(1)
    long[] workWith = new long[1];

    /// The bits of a category's features.
    ///
    /// @throws IllegalArgumentException if the category is one that is searched by
    long[] features(Category category) {
        return switch (category) {
            case BIRTHDAY -> birthday;
            case CLASSES -> classes;
            case DEGREE -> degree;
            case EDUCATION_TYPE -> educationType;
            case EDUCATION_WITH -> educationWith;
            case YEAR -> year;
            case FIRST_NAME -> firstName;
            case GENDER -> gender;
            case LANGUAGES -> languages;
            case LAST_NAME -> lastName;
            case LOCALE -> locale;
            case MIDDLE_NAME -> middleName;
            case NAME -> name;
            case POLITICAL -> political;
            case RELIGION -> religion;
            case WORK_END -> workEnd;
            case WORK_FROM -> workFrom;
            case WORK_LOCATION -> workLocation;
            case POSITION -> position;
            case PROJECTS -> projects;
            case WORK_START -> workStart;
            case WORK_WITH -> workWith;
            default -> throw new IllegalArgumentException(category + " is searched by");
        };
    }
}
