package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;
import org.junit.jupiter.api.Test;

/// Numbers are found as a set finds them.
class OneOfTest {
    private static final List<Long> EXTREMES =
            List.of(Long.MIN_VALUE, Long.MIN_VALUE + 1, -1L, 0L, Long.MAX_VALUE);

    private static long number(Random random) {
        return random.nextInt(5) == 0
                ? EXTREMES.get(random.nextInt(EXTREMES.size()))
                : random.nextInt(100) * (1L << random.nextInt(40));
    }

    /// Facts about numbers, of which so many more rows are null.
    private record Block(long[] numbers, int nulls) implements BlockFilter.Facts {
        @Override
        public long rows() {
            return numbers.length + nulls;
        }

        @Override
        public long nulls(int column) {
            return nulls;
        }

        @Override
        public byte @Nullable [] min(int column) {
            return numbers.length == 0
                    ? null
                    : OrderKeys.ofLong(LongStream.of(numbers).min().getAsLong());
        }

        @Override
        public byte @Nullable [] max(int column) {
            return numbers.length == 0
                    ? null
                    : OrderKeys.ofLong(LongStream.of(numbers).max().getAsLong());
        }
    }

    private static BlockVector vector(long[] numbers) {
        StructType schema = new StructType().add("number", DataTypes.LongType);
        BlockVector vector = new BlockVector(BlockLayout.of(schema).column(0));
        vector.hold(() -> numbers, numbers.length);
        return vector;
    }

    @Test
    void numbersAreFoundAsInASet() {
        for (int seed = 0; seed < 2000; seed++) {
            Random random = new Random(seed);
            long[] wanted = random.longs(random.nextInt(60)).map(_ -> number(random)).toArray();
            Set<Long> model = Arrays.stream(wanted).boxed().collect(Collectors.toSet());
            OneOf filter = new OneOf(0, wanted, "...");
            long[] numbers = random.longs(random.nextInt(6)).map(_ -> number(random)).toArray();
            boolean[] rows = new boolean[numbers.length];
            boolean[] expected = new boolean[numbers.length];
            boolean isAny = false;
            boolean areAll = true;
            for (int i = 0; i < rows.length; i++) {
                rows[i] = random.nextInt(4) > 0;
                expected[i] = rows[i] && model.contains(numbers[i]);
                isAny |= model.contains(numbers[i]);
                areAll &= model.contains(numbers[i]);
            }
            filter.keep(_ -> vector(numbers), rows);
            String where = "seed " + seed;
            assertArrayEquals(expected, rows, where);
            Block block = new Block(numbers, random.nextInt(2));
            boolean mayMatch = filter.mayMatch(block);
            assertEquals(mayMatch, mayMatch || isAny, where + ": a row was lost");
            boolean mustMatch = filter.mustMatch(block);
            assertEquals(mustMatch, mustMatch && areAll && block.nulls() == 0, where);
        }
    }

    @Test
    void blocksBetweenTheNumbersAreLeftOut() {
        OneOf filter = new OneOf(0, new long[] {30, 10, 20, 10}, "10, 20, 30");
        assertEquals("a in (10, 20, 30)", filter.words(List.of("a")));
        long[][] without = {{}, {9}, {11, 19}, {21}, {31, 40}};
        for (long[] block : without) {
            assertEquals(false, filter.mayMatch(new Block(block, 1)), Arrays.toString(block));
        }
        long[][] with = {{10}, {9, 11}, {1, 40}, {30, 31}};
        for (long[] block : with) {
            assertEquals(true, filter.mayMatch(new Block(block, 1)), Arrays.toString(block));
        }
        assertEquals(true, filter.mustMatch(new Block(new long[] {20, 20}, 0)));
        assertEquals(false, filter.mustMatch(new Block(new long[] {20, 30}, 0)));
        assertEquals(false, filter.mustMatch(new Block(new long[] {20}, 1)));
    }
}
