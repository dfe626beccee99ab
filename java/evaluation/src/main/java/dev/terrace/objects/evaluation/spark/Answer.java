package dev.terrace.objects.evaluation.spark;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.apache.spark.sql.Row;
import org.jspecify.annotations.Nullable;

/// The rows that a query has found, as a set: numbers of any type as doubles, and of all else its
/// text.
///
/// @param rows of numbers, texts and nulls
public record Answer(List<List<@Nullable Object>> rows) {
    /// How far numbers may differ, to their size.
    private static final double TOLERANCE = 1e-9;

    /// The answer in Spark's rows.
    public static Answer of(List<Row> found) {
        List<List<@Nullable Object>> rows = new ArrayList<>();
        for (Row row : found) {
            List<@Nullable Object> cells = new ArrayList<>();
            for (int i = 0; i < row.size(); i++) {
                cells.add(cell(row.get(i)));
            }
            rows.add(cells);
        }
        return new Answer(rows);
    }

    private static @Nullable Object cell(@Nullable Object value) {
        return switch (value) {
            case null -> null;
            case Number number -> number.doubleValue();
            default -> value.toString();
        };
    }

    /// Whether both have the same rows, in any order.
    public boolean isAbout(Answer other) {
        if (rows.size() != other.rows.size()) {
            return false;
        }
        List<List<@Nullable Object>> mine = sorted();
        List<List<@Nullable Object>> others = other.sorted();
        for (int i = 0; i < mine.size(); i++) {
            if (!areAbout(mine.get(i), others.get(i))) {
                return false;
            }
        }
        return true;
    }

    private List<List<@Nullable Object>> sorted() {
        return rows.stream().sorted(Comparator.comparing(Answer::key)).toList();
    }

    /// The same for numbers that differ by less than anybody minds.
    private static String key(List<@Nullable Object> row) {
        return row.stream()
                .map(cell ->
                        cell instanceof Double number
                                ? String.format(Locale.ROOT, "%.5e", number)
                                : String.valueOf(cell))
                .collect(Collectors.joining("\0"));
    }

    private static boolean areAbout(List<@Nullable Object> one, List<@Nullable Object> other) {
        if (one.size() != other.size()) {
            return false;
        }
        for (int i = 0; i < one.size(); i++) {
            if (!isAbout(one.get(i), other.get(i))) {
                return false;
            }
        }
        return true;
    }

    private static boolean isAbout(@Nullable Object one, @Nullable Object other) {
        if (one instanceof Double mine && other instanceof Double others) {
            return Math.abs(mine - others)
                    <= TOLERANCE * Math.max(Math.abs(mine), Math.abs(others));
        }
        return String.valueOf(one).equals(String.valueOf(other));
    }
}
