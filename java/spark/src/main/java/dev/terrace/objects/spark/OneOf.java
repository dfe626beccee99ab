package dev.terrace.objects.spark;

import java.io.Serial;
import java.util.Arrays;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// Asks whether a column's number is one of many, such as those of a table that a query joins.
final class OneOf implements BlockFilter {
    @Serial private static final long serialVersionUID = 1L;

    private final int column;

    /// In their order, each once.
    private final long[] numbers;

    /// The first of them as SQL has them.
    private final String constants;

    /// The numbers in a table of twice their count, where each lies at its hash or behind; made
    /// where it is used first. The number of an empty place is `empty`.
    private transient long @Nullable [] places;

    private transient long empty;

    /// @param constants the first of the numbers as SQL has them
    OneOf(int column, long[] numbers, String constants) {
        this.column = column;
        this.numbers = Arrays.stream(numbers).sorted().distinct().toArray();
        this.constants = constants;
    }

    @Override
    public String words(List<String> columns) {
        return columns.get(column) + " in (" + constants + ")";
    }

    @Override
    public boolean mayMatch(Facts facts) {
        if (facts.nulls(column) == facts.rows()) {
            return false;
        }
        byte[] min = facts.min(column);
        byte[] max = facts.max(column);
        int first = min == null ? 0 : firstFrom(OrderKeys.toLong(min));
        return first < numbers.length && (max == null || numbers[first] <= OrderKeys.toLong(max));
    }

    @Override
    public boolean mustMatch(Facts facts) {
        byte[] min = facts.min(column);
        byte[] max = facts.max(column);
        return facts.nulls(column) == 0
                && min != null
                && Arrays.equals(min, max)
                && Arrays.binarySearch(numbers, OrderKeys.toLong(min)) >= 0;
    }

    /// The place of the first number that is not less.
    private int firstFrom(long least) {
        int found = Arrays.binarySearch(numbers, least);
        return found < 0 ? -found - 1 : found;
    }

    @Override
    public void keep(Values values, boolean[] rows) {
        values.of(column).keepNumbers(this::has, rows);
    }

    private boolean has(long number) {
        long[] table = places == null ? makePlaces() : places;
        if (number == empty) {
            return false;
        }
        int mask = table.length - 1;
        int place = hash(number) & mask;
        while (table[place] != empty) {
            if (table[place] == number) {
                return true;
            }
            place = place + 1 & mask;
        }
        return false;
    }

    private long[] makePlaces() {
        empty = numbers.length > 0 && numbers[0] == Long.MIN_VALUE ? freeNumber() : Long.MIN_VALUE;
        long[] made = new long[Math.max(2, Integer.highestOneBit(numbers.length) * 4)];
        Arrays.fill(made, empty);
        for (long number : numbers) {
            int place = hash(number) & made.length - 1;
            while (made[place] != empty) {
                place = place + 1 & made.length - 1;
            }
            made[place] = number;
        }
        places = made;
        return made;
    }

    /// A number that is none of these.
    private long freeNumber() {
        int i = 1;
        while (i < numbers.length && numbers[i] == numbers[i - 1] + 1) {
            i++;
        }
        return numbers[i - 1] + 1;
    }

    private static int hash(long number) {
        long mixed = number * 0x9E3779B97F4A7C15L;
        return (int) (mixed >>> Integer.SIZE);
    }
}
