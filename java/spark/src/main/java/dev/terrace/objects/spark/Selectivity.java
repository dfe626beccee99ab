package dev.terrace.objects.spark;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.types.StructType;

/// Estimates how many rows of a part meet conditions, by the bounds that the manifest knows: as if
/// values lay evenly between them.
///
/// Invariant: an estimate is never less than an eighth of what there is. Spark broadcasts a table
/// that it takes for small, so if values lie otherwise, it broadcasts at most eight times of what
/// it allows.
final class Selectivity {
    private static final double LEAST = 1.0 / 8;

    private final StructType schema;

    /// What each column's numbers may be.
    private final Map<Integer, Range> ranges = new HashMap<>();

    /// Numbers from one to another.
    private record Range(long from, long to) {
        static final Range ALL = new Range(Long.MIN_VALUE, Long.MAX_VALUE);

        Range and(Range other) {
            return new Range(Math.max(from, other.from), Math.min(to, other.to));
        }

        /// How many numbers there are, as a number that does not overflow.
        double size() {
            return from > to ? 0 : (double) to - from + 1;
        }
    }

    /// @param conditions that all rows meet
    Selectivity(StructType schema, List<BlockFilter> conditions) {
        this.schema = schema;
        conditions.forEach(this::take);
    }

    private void take(BlockFilter condition) {
        switch (condition) {
            case BlockFilter.Several several when several.all() ->
                    several.conditions().forEach(this::take);
            case BlockFilter.Comparison comparison
                    when ColumnSummary.isExact(schema.fields()[comparison.column()].dataType()) ->
                    ranges.merge(comparison.column(), range(comparison), Range::and);
            default -> {
                // Nothing is known of how many meet it.
            }
        }
    }

    private static Range range(BlockFilter.Comparison comparison) {
        long number = OrderKeys.toLong(comparison.key());
        return switch (comparison.order()) {
            case EQUAL -> new Range(number, number);
            case LESS_OR_EQUAL -> new Range(Long.MIN_VALUE, number);
            case GREATER_OR_EQUAL -> new Range(number, Long.MAX_VALUE);
            // One number more than none does not matter.
            case LESS -> new Range(Long.MIN_VALUE, Math.max(number, Long.MIN_VALUE + 1) - 1);
            case GREATER -> new Range(Math.min(number, Long.MAX_VALUE - 1) + 1, Long.MAX_VALUE);
            case STARTS_WITH -> Range.ALL;
        };
    }

    /// The estimated share of a part's rows that meet the conditions.
    double of(Part part) {
        double share = 1;
        for (Map.Entry<Integer, Range> range : ranges.entrySet()) {
            ColumnSummary column = part.columns().get(range.getKey());
            byte[] min = column.min();
            byte[] max = column.max();
            if (min != null && max != null) {
                Range all = new Range(OrderKeys.toLong(min), OrderKeys.toLong(max));
                share *= range.getValue().and(all).size() / all.size();
            }
        }
        return Math.max(LEAST, share);
    }
}
