package dev.terrace.objects.arrow;

import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.ArrowType;
import org.jspecify.annotations.Nullable;

/// The columns and batches that a program wants.
///
/// @param rows the greatest number of rows of a batch
/// @param names the columns; null: all
/// @param unit of times
/// @param decimals the columns of numbers with decimals, by their names
record Shape(
        int rows,
        @Nullable Set<String> names,
        TimeUnit unit,
        Map<String, ArrowType.Decimal> decimals) {
    private static final int ROWS = 16_384;
    private static final int NARROW_DIGITS = 38;
    private static final int WIDE_DIGITS = 76;

    /// The default.
    static final Shape DEFAULT = new Shape(ROWS, null, TimeUnit.NANOSECOND, Map.of());

    Shape withRows(int newRows) {
        if (newRows < 1) {
            throw new IllegalArgumentException("a batch has at least one row, not " + newRows);
        }
        return new Shape(newRows, names, unit, decimals);
    }

    Shape withNames(String... newNames) {
        if (newNames.length == 0) {
            throw new IllegalArgumentException("an export without columns: name at least one");
        }
        return new Shape(rows, new LinkedHashSet<>(List.of(newNames)), unit, decimals);
    }

    Shape withUnit(TimeUnit newUnit) {
        return new Shape(rows, names, newUnit, decimals);
    }

    Shape withDecimal(String name, int precision, int scale) {
        if (precision < 1 || precision > WIDE_DIGITS || scale < 0 || scale > precision) {
            throw new IllegalArgumentException(
                    "column "
                            + name
                            + ": Arrow has decimals of 1 to "
                            + WIDE_DIGITS
                            + " digits, of which 0 or more, and not more than all, follow the"
                            + " point; not "
                            + precision
                            + " and "
                            + scale);
        }
        Map<String, ArrowType.Decimal> more = new LinkedHashMap<>(decimals);
        more.put(
                name,
                new ArrowType.Decimal(precision, scale, precision <= NARROW_DIGITS ? 128 : 256));
        return new Shape(rows, names, unit, more);
    }

    /// Whether a column is wanted, or a part of it.
    boolean wants(String column) {
        return names == null
                || names.stream()
                        .anyMatch(name -> isWithin(column, name) || isWithin(name, column));
    }

    private static boolean isWithin(String inner, String outer) {
        return inner.equals(outer) || inner.startsWith(outer + ".");
    }
}
