package dev.terrace.objects.collections;

import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.terrace.objects.PoolDir;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.function.Function;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.jspecify.annotations.Nullable;

/// As [ModelTest], for values of the JDK's classes as elements, keys and values.
class ValuesModelTest {
    private static final int TRIES = 96;
    private static final String SEED = "43";

    /// A class, and its values by number: none is less than one before it, and some that follow one
    /// another are equal, or, of decimals, differ in their scale only.
    private record Values<E>(ElementType<E> type, Function<Integer, E> values) {
        /// The value of a number; null for some.
        @Nullable E orNull(int number) {
            return number % 11 == 0 ? null : value(number);
        }

        /// The value of one of a few numbers.
        E value(int number) {
            return values.apply(number % 400);
        }
    }

    private static Instant instant(int number) {
        return Instant.ofEpochSecond(number / 4 - 40, number % 4 * 333_333_333L);
    }

    private static final List<Values<?>> ALL =
            List.of(
                    new Values<>(ElementType.UUID, i -> new UUID(i / 2 - 70, i / 2 * 0x9e3779b9L)),
                    new Values<>(ElementType.INSTANT, ValuesModelTest::instant),
                    new Values<>(ElementType.LOCAL_DATE, i -> LocalDate.ofEpochDay(i - 150)),
                    new Values<>(
                            ElementType.LOCAL_TIME,
                            i -> LocalTime.ofNanoOfDay(i / 2 * 123_456_789_012L)),
                    new Values<>(
                            ElementType.LOCAL_DATE_TIME,
                            i -> LocalDateTime.ofInstant(instant(i), ZoneOffset.UTC)),
                    new Values<>(
                            ElementType.DURATION, i -> Duration.between(Instant.EPOCH, instant(i))),
                    new Values<>(ElementType.BIG_INTEGER, i -> BigInteger.valueOf(i - 150).pow(7)),
                    new Values<>(
                            ElementType.BIG_DECIMAL,
                            i ->
                                    new BigDecimal(i / 3 - 70)
                                            .setScale(i % 3 * 5, RoundingMode.UNNECESSARY)));

    private static Values<?> values(int number) {
        return ALL.get(number % ALL.size());
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void aListIsAnArrayList(
            @ForAll @IntRange(max = 7) int type,
            @ForAll @Size(max = 40) List<@IntRange(max = ModelTest.NUMBERS) Integer> steps) {
        isAnArrayList(values(type), steps);
    }

    private static <E> void isAnArrayList(Values<E> of, List<Integer> steps) {
        ModelTest.compare(
                steps,
                (List<@Nullable E>) new ArrayList<@Nullable E>(),
                pool -> DurableList.root(pool, "list", of.type),
                (list, number) -> ModelTest.listStep(list, number, of::orNull));
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void aMapIsAHashMap(
            @ForAll @IntRange(max = 63) int types,
            @ForAll @Size(max = 40) List<@IntRange(max = ModelTest.NUMBERS) Integer> steps) {
        isAHashMap(values(types / 8), values(types % 8), steps);
    }

    private static <K, V> void isAHashMap(Values<K> keys, Values<V> of, List<Integer> steps) {
        ModelTest.compare(
                steps,
                (Map<@Nullable K, @Nullable V>) new HashMap<@Nullable K, @Nullable V>(),
                pool -> DurableMap.root(pool, "map", keys.type, of.type),
                (map, number) ->
                        ModelTest.mapStep(
                                map, ModelTest.withoutOrder(number), keys::orNull, of::orNull));
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void aSortedMapIsATreeMap(
            @ForAll @IntRange(max = 63) int types,
            @ForAll @Size(max = 40) List<@IntRange(max = ModelTest.NUMBERS) Integer> steps) {
        isATreeMap(values(types / 8), values(types % 8), steps);
    }

    private static <K, V> void isATreeMap(Values<K> keys, Values<V> of, List<Integer> steps) {
        ModelTest.compare(
                steps,
                (NavigableMap<K, @Nullable V>) new TreeMap<K, @Nullable V>(),
                pool -> DurableTree.root(pool, "tree", keys.type, of.type),
                (tree, number) -> ModelTest.treeStep(tree, number, keys::value, of::orNull));
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void setsAreSets(
            @ForAll @IntRange(max = 7) int type,
            @ForAll @Size(max = 100) List<@IntRange(max = ModelTest.NUMBERS) Integer> numbers) {
        areSets(values(type), numbers);
    }

    private static <E> void areSets(Values<E> of, List<Integer> numbers) {
        try (PoolDir dir = new PoolDir()) {
            HashSet<E> hashed = new HashSet<>();
            TreeSet<E> sorted = new TreeSet<>();
            DurableSet<E> set = DurableSet.root(dir.pool(), "set", of.type);
            DurableSortedSet<E> tree = DurableSortedSet.root(dir.pool(), "tree", of.type);
            for (int number : numbers) {
                E each = of.value(number / 2);
                if (number % 4 == 1) {
                    assertEquals(hashed.remove(each), set.remove(each));
                    assertEquals(sorted.remove(each), tree.remove(each));
                } else {
                    assertEquals(hashed.add(each), set.add(each));
                    assertEquals(sorted.add(each), tree.add(each));
                }
                assertEquals(hashed.contains(each), set.contains(each));
                assertEquals(sorted.ceiling(each), tree.ceiling(each));
                assertEquals(sorted.lower(each), tree.lower(each));
            }
            assertEquals(hashed, set);
            assertEquals(List.copyOf(sorted), List.copyOf(tree));
            assertEquals(List.of(), dir.pool().check().problems());
        }
    }
}
