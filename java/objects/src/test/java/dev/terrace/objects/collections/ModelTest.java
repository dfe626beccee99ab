package dev.terrace.objects.collections;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDir;
import dev.terrace.objects.PoolReport;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Objects;
import java.util.TreeMap;
import java.util.function.BiFunction;
import java.util.function.Function;
import net.jqwik.api.ForAll;
import net.jqwik.api.Property;
import net.jqwik.api.ShrinkingMode;
import net.jqwik.api.constraints.IntRange;
import net.jqwik.api.constraints.Size;
import org.jspecify.annotations.Nullable;

/// Each operation on a durable collection leaves what the same does to one of `java.util`; also in
/// transactions, in those that are rolled back, and after reopening the pool. Failures are not made
/// smaller: that is given up after some time, with a pool still open.
class ModelTest {
    static final int NUMBERS = 1 << 20;
    private static final int TRIES = 60;

    /// Different keys of sorted maps, more or less.
    private static final int KEYS = 300;

    private static final String SEED = "42";

    private static final class OnPurpose extends RuntimeException {
        @java.io.Serial private static final long serialVersionUID = 1L;
    }

    /// Does steps to both, some of them in transactions, and compares what they return and what
    /// they leave.
    ///
    /// @param open opens the durable collection in a pool, or makes it
    /// @param step does what a number says, and returns what that returns
    static <C> void compare(
            List<Integer> steps,
            C model,
            Function<Pool, C> open,
            BiFunction<C, Integer, @Nullable Object> step) {
        try (PoolDir dir = new PoolDir()) {
            C durable = open.apply(dir.pool());
            for (int number : steps) {
                C now = durable;
                int way = number % 16;
                if (way == 0) {
                    assertThrows(
                            OnPurpose.class,
                            () ->
                                    dir.pool()
                                            .transact(() -> {
                                                step.apply(now, number / 16);
                                                step.apply(now, number / 32);
                                                throw new OnPurpose();
                                            }));
                } else if (way == 1) {
                    List<@Nullable Object> returned =
                            dir.pool()
                                    .transact(() ->
                                            Arrays.asList(
                                                    step.apply(now, number / 16),
                                                    step.apply(now, number / 32)));
                    List<@Nullable Object> expected =
                            Arrays.asList(
                                    step.apply(model, number / 16), step.apply(model, number / 32));
                    assertEquals(expected, returned);
                } else {
                    assertEquals(step.apply(model, number / 16), step.apply(durable, number / 16));
                }
                if (way == 2) {
                    durable = open.apply(dir.reopen());
                }
                assertEquals(model.toString().length(), durable.toString().length());
            }
            assertEquals(model, durable);
            assertEquals(durable, model);
            assertEquals(model.hashCode(), durable.hashCode());
            PoolReport report = dir.pool().check();
            assertEquals(List.of(), report.problems());
            assertEquals(Map.of(), report.leaked());
            assertEquals(model, open.apply(dir.reopen()));
        }
    }

    /// Null, short texts and long ones.
    private static @Nullable String text(int number) {
        return number % 11 == 0
                ? null
                : number % 3 == 0 ? "t" + number % 50 : "\u03b1 a longer text " + number % 50;
    }

    private static @Nullable Long number(int number) {
        return number % 11 == 0
                ? null
                : number % 5 == 0 ? (long) number << 40 : (long) number % 100;
    }

    static <E> @Nullable Object listStep(List<E> list, int number, Function<Integer, E> element) {
        int size = list.size();
        int index = size == 0 ? 0 : number / 32 % size;
        E value = element.apply(number / 7);
        return switch (number % 16) {
            case 0, 1, 2, 3 -> list.add(value);
            case 4 -> insert(list, index, value);
            case 5 -> size == 0 ? null : list.remove(index);
            case 6 -> size == 0 ? null : list.set(index, value);
            case 7 -> list.addAll(index, Arrays.asList(value, element.apply(2)));
            case 8 -> list.indexOf(value);
            case 9 -> list.remove(value);
            case 10 -> list.removeIf(e -> e != null && e.hashCode() % 7 == number % 7);
            case 11 -> cut(list, index, Math.min(size, index + number % 5));
            case 12 -> list.addAll(many(element, number % 200));
            case 13 -> number % 5 == 0 ? cut(list, 0, size) : list.lastIndexOf(value);
            case 14 -> removeEverySecond(list.iterator());
            default -> new ArrayList<>(list.subList(index, size));
        };
    }

    private static <E> List<E> many(Function<Integer, E> element, int count) {
        List<E> many = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            many.add(element.apply(i));
        }
        return many;
    }

    private static <E> @Nullable Object insert(List<E> list, int index, E value) {
        list.add(index, value);
        return null;
    }

    private static @Nullable Object cut(List<?> list, int from, int to) {
        list.subList(from, to).clear();
        return null;
    }

    private static @Nullable Object removeEverySecond(Iterator<?> elements) {
        for (boolean odd = false; elements.hasNext(); odd = !odd) {
            elements.next();
            if (odd) {
                elements.remove();
            }
        }
        return null;
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void aListOfTextsIsAnArrayList(
            @ForAll @Size(max = 60) List<@IntRange(max = NUMBERS) Integer> steps) {
        compare(
                steps,
                (List<@Nullable String>) new ArrayList<@Nullable String>(),
                pool -> DurableList.root(pool, "list", ElementType.STRING),
                (list, number) -> listStep(list, number, ModelTest::text));
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void aListOfNumbersIsAnArrayList(
            @ForAll @Size(max = 60) List<@IntRange(max = NUMBERS) Integer> steps) {
        compare(
                steps,
                (List<@Nullable Long>) new ArrayList<@Nullable Long>(),
                pool -> DurableList.root(pool, "list", ElementType.LONG),
                (list, number) -> listStep(list, number, ModelTest::number));
    }

    static <K, V> @Nullable Object mapStep(
            Map<K, V> map, int number, Function<Integer, K> keys, Function<Integer, V> values) {
        K key = keys.apply(number / 16);
        V value = values.apply(number / 13);
        return switch (number % 16) {
            case 0, 1, 2, 3 -> map.put(key, value);
            case 4, 5 -> map.remove(key);
            case 6 -> map.get(key);
            case 7 -> map.containsKey(key);
            case 8 -> map.putIfAbsent(key, value);
            case 9 ->
                    map.computeIfPresent(
                            key, (_, old) -> old.hashCode() % 2 == 0 ? null : values.apply(3));
            case 10 ->
                    map.merge(
                            key,
                            Objects.requireNonNullElse(value, values.apply(1)),
                            (_, _) -> values.apply(2));
            case 11 -> map.values().remove(value) ? map.size() : -1;
            case 12 -> putMany(map, keys, values, number % 300);
            case 13 -> map.keySet().removeIf(k -> k != null && k.hashCode() % 5 == number % 5);
            case 14 -> map.replace(key, value);
            default -> number % 7 == 0 ? clear(map) : map.containsValue(value);
        };
    }

    private static <K, V> @Nullable Object putMany(
            Map<K, V> map, Function<Integer, K> keys, Function<Integer, V> values, int count) {
        for (int i = 0; i < count; i++) {
            map.put(keys.apply(3 * i + count), values.apply(i));
        }
        return null;
    }

    private static @Nullable Object clear(Map<?, ?> map) {
        map.clear();
        return null;
    }

    /// A map that removes by value removes any entry of that value, so such steps are left out.
    static int withoutOrder(int number) {
        return number % 16 == 11 ? number + 1 : number;
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void aMapOfTextsIsAHashMap(
            @ForAll @Size(max = 60) List<@IntRange(max = NUMBERS) Integer> steps) {
        compare(
                steps,
                (Map<@Nullable String, @Nullable Long>)
                        new HashMap<@Nullable String, @Nullable Long>(),
                pool -> DurableMap.root(pool, "map", ElementType.STRING, ElementType.LONG),
                (map, number) ->
                        mapStep(map, withoutOrder(number), ModelTest::text, ModelTest::number));
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void aMapOfNumbersIsAHashMap(
            @ForAll @Size(max = 60) List<@IntRange(max = NUMBERS) Integer> steps) {
        compare(
                steps,
                (Map<@Nullable Long, @Nullable String>)
                        new HashMap<@Nullable Long, @Nullable String>(),
                pool -> DurableMap.root(pool, "map", ElementType.LONG, ElementType.STRING),
                (map, number) ->
                        mapStep(map, withoutOrder(number), ModelTest::number, ModelTest::text));
    }

    /// @param keys the keys, of which none is less than one before it
    static <K, V> @Nullable Object treeStep(
            NavigableMap<K, V> tree,
            int number,
            Function<Integer, K> keys,
            Function<Integer, V> values) {
        K key = keys.apply(number / 16 % KEYS);
        K to = keys.apply(number / 16 % KEYS + number % 50);
        return switch (number / 4 % 16) {
            case 0 -> tree.floorEntry(key);
            case 1 -> tree.ceilingKey(key);
            case 2 -> tree.lowerEntry(key);
            case 3 -> tree.higherKey(key);
            case 4 -> tree.pollFirstEntry();
            case 5 -> tree.pollLastEntry();
            case 6 -> new TreeMap<>(tree.subMap(key, true, to, number % 2 == 0));
            case 7 -> new ArrayList<>(tree.descendingMap().tailMap(key, false).keySet());
            case 8 -> clear(tree.subMap(key, to));
            case 9 -> tree.headMap(key).size();
            case 10 -> removeEverySecond(tree.descendingKeySet().iterator());
            default -> mapStep(tree, number, i -> keys.apply(i % KEYS), values);
        };
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void aSortedMapIsATreeMap(
            @ForAll @Size(max = 60) List<@IntRange(max = NUMBERS) Integer> steps) {
        compare(
                steps,
                (NavigableMap<Integer, @Nullable String>) new TreeMap<Integer, @Nullable String>(),
                pool -> DurableTree.root(pool, "tree", ElementType.INTEGER, ElementType.STRING),
                (tree, number) -> treeStep(tree, number, i -> i, ModelTest::text));
    }

    @Property(tries = TRIES, seed = SEED, shrinking = ShrinkingMode.OFF)
    void aSortedMapOfTextsIsATreeMap(
            @ForAll @Size(max = 60) List<@IntRange(max = NUMBERS) Integer> steps) {
        compare(
                steps,
                (Map<String, @Nullable Long>) new TreeMap<String, @Nullable Long>(),
                pool -> DurableTree.root(pool, "tree", ElementType.STRING, ElementType.LONG),
                (tree, number) ->
                        mapStep(
                                tree,
                                number,
                                i -> Objects.requireNonNullElse(text(i), "none"),
                                ModelTest::number));
    }

    @Property(tries = 5, seed = SEED, shrinking = ShrinkingMode.OFF)
    void largeOnesHoldAll(@ForAll @IntRange(min = 3000, max = 20_000) int count) {
        try (PoolDir dir = new PoolDir()) {
            List<Long> list = DurableList.root(dir.pool(), "list", ElementType.LONG);
            Map<Long, Integer> map =
                    DurableMap.root(dir.pool(), "map", ElementType.LONG, ElementType.INTEGER);
            Map<Long, Integer> tree =
                    DurableTree.root(dir.pool(), "tree", ElementType.LONG, ElementType.INTEGER);
            Map<Long, Integer> model = new TreeMap<>();
            for (int i = 0; i < count; i++) {
                long key = i * 0x9e3779b97f4a7c15L;
                list.add(key);
                map.put(key, i);
                tree.put(key, i);
                model.put(key, i);
            }
            Pool pool = dir.reopen();
            list = DurableList.root(pool, "list", ElementType.LONG);
            map = DurableMap.root(pool, "map", ElementType.LONG, ElementType.INTEGER);
            tree = DurableTree.root(pool, "tree", ElementType.LONG, ElementType.INTEGER);
            assertEquals(new ArrayList<>(model.entrySet()), new ArrayList<>(tree.entrySet()));
            assertEquals(model, map);
            assertEquals(model.keySet(), new java.util.TreeSet<>(list));
            for (int i = 0; i < count; i++) {
                long key = list.removeLast();
                assertEquals(model.get(key), map.remove(key));
                assertEquals(model.get(key), tree.remove(key));
            }
            assertTrue(list.isEmpty() && map.isEmpty() && tree.isEmpty());
            assertEquals(Map.of(), pool.check().leaked());
        }
    }
}
