package dev.terrace.objects.collections;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.common.collect.testing.ListTestSuiteBuilder;
import com.google.common.collect.testing.MapTestSuiteBuilder;
import com.google.common.collect.testing.NavigableMapTestSuiteBuilder;
import com.google.common.collect.testing.NavigableSetTestSuiteBuilder;
import com.google.common.collect.testing.SampleElements;
import com.google.common.collect.testing.SetTestSuiteBuilder;
import com.google.common.collect.testing.TestListGenerator;
import com.google.common.collect.testing.TestMapGenerator;
import com.google.common.collect.testing.TestSortedMapGenerator;
import com.google.common.collect.testing.TestStringListGenerator;
import com.google.common.collect.testing.TestStringMapGenerator;
import com.google.common.collect.testing.TestStringSetGenerator;
import com.google.common.collect.testing.TestStringSortedMapGenerator;
import com.google.common.collect.testing.TestStringSortedSetGenerator;
import com.google.common.collect.testing.features.CollectionFeature;
import com.google.common.collect.testing.features.CollectionSize;
import com.google.common.collect.testing.features.ListFeature;
import com.google.common.collect.testing.features.MapFeature;
import com.google.common.collect.testing.features.SetFeature;
import dev.terrace.objects.PoolDir;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.SortedSet;
import java.util.stream.Stream;
import junit.framework.Test;
import junit.framework.TestFailure;
import junit.framework.TestResult;
import junit.framework.TestSuite;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.TestFactory;

/// Guava's suites of what `java.util` says of collections.
class JavaUtilTest {
    private static PoolDir dir;

    @BeforeAll
    static void open() {
        dir = new PoolDir();
    }

    @AfterAll
    static void close() {
        dir.close();
    }

    /// The tests of a suite. Guava writes them for JUnit 3.
    private static Stream<DynamicTest> tests(TestSuite suite) {
        List<DynamicTest> all = new ArrayList<>();
        collect(suite, suite.getName(), all);
        assertTrue(all.size() > 100, () -> all.size() + " tests");
        return all.stream();
    }

    private static void collect(TestSuite suite, String name, List<DynamicTest> into) {
        for (Test test : Collections.list(suite.tests())) {
            if (test instanceof TestSuite inner) {
                collect(inner, name + " / " + inner.getName(), into);
            } else {
                into.add(DynamicTest.dynamicTest(name + " / " + test, () -> run(test)));
            }
        }
    }

    private static void run(Test test) throws Throwable {
        TestResult result = new TestResult();
        test.run(result);
        for (TestFailure failure : Collections.list(result.failures())) {
            throw failure.thrownException();
        }
        for (TestFailure failure : Collections.list(result.errors())) {
            throw failure.thrownException();
        }
    }

    @TestFactory
    Stream<DynamicTest> listOfStrings() {
        return tests(
                ListTestSuiteBuilder.using(
                                new TestStringListGenerator() {
                                    @Override
                                    protected List<String> create(String[] elements) {
                                        List<String> list =
                                                DurableList.create(dir.pool(), ElementType.STRING);
                                        list.addAll(Arrays.asList(elements));
                                        return list;
                                    }
                                })
                        .named("a list of strings")
                        .withFeatures(
                                ListFeature.GENERAL_PURPOSE,
                                CollectionFeature.ALLOWS_NULL_VALUES,
                                CollectionFeature.FAILS_FAST_ON_CONCURRENT_MODIFICATION,
                                CollectionSize.ANY)
                        .createTestSuite());
    }

    @TestFactory
    Stream<DynamicTest> listOfNumbers() {
        return tests(
                ListTestSuiteBuilder.using(new Numbers(true))
                        .named("a list of numbers")
                        .withFeatures(
                                ListFeature.GENERAL_PURPOSE,
                                CollectionFeature.ALLOWS_NULL_VALUES,
                                CollectionFeature.FAILS_FAST_ON_CONCURRENT_MODIFICATION,
                                CollectionSize.ANY)
                        .createTestSuite());
    }

    @TestFactory
    Stream<DynamicTest> setOfStrings() {
        return tests(
                SetTestSuiteBuilder.using(
                                new TestStringSetGenerator() {
                                    @Override
                                    protected Set<String> create(String[] elements) {
                                        Set<String> set =
                                                DurableSet.create(dir.pool(), ElementType.STRING);
                                        set.addAll(Arrays.asList(elements));
                                        return set;
                                    }
                                })
                        .named("a set of strings")
                        .withFeatures(
                                SetFeature.GENERAL_PURPOSE,
                                CollectionFeature.ALLOWS_NULL_VALUES,
                                CollectionFeature.FAILS_FAST_ON_CONCURRENT_MODIFICATION,
                                CollectionSize.ANY)
                        .createTestSuite());
    }

    @TestFactory
    Stream<DynamicTest> sortedSetOfStrings() {
        return tests(
                NavigableSetTestSuiteBuilder.using(
                                new TestStringSortedSetGenerator() {
                                    @Override
                                    protected SortedSet<String> create(String[] elements) {
                                        SortedSet<String> set =
                                                DurableSortedSet.create(
                                                        dir.pool(), ElementType.STRING);
                                        set.addAll(Arrays.asList(elements));
                                        return set;
                                    }
                                })
                        .named("a sorted set of strings")
                        .withFeatures(
                                SetFeature.GENERAL_PURPOSE,
                                CollectionFeature.KNOWN_ORDER,
                                CollectionFeature.FAILS_FAST_ON_CONCURRENT_MODIFICATION,
                                CollectionSize.ANY)
                        .createTestSuite());
    }

    @TestFactory
    Stream<DynamicTest> arrayOfNumbers() {
        return tests(
                ListTestSuiteBuilder.using(new Numbers(false))
                        .named("an array of numbers")
                        .withFeatures(
                                ListFeature.SUPPORTS_SET,
                                CollectionFeature.ALLOWS_NULL_VALUES,
                                CollectionSize.ANY)
                        .createTestSuite());
    }

    /// Lists, or arrays, of numbers that need a bit of their own for null.
    private record Numbers(boolean lists) implements TestListGenerator<Long> {
        @Override
        public SampleElements<Long> samples() {
            return new SampleElements<>(0L, -1L, Long.MIN_VALUE, Long.MAX_VALUE, 1L << 40);
        }

        @Override
        public List<Long> create(Object... elements) {
            if (lists) {
                List<Long> list = DurableList.create(dir.pool(), ElementType.LONG);
                for (Object element : elements) {
                    list.add((Long) element);
                }
                return list;
            }
            List<Long> array = DurableArray.create(dir.pool(), ElementType.LONG, elements.length);
            for (int i = 0; i < elements.length; i++) {
                array.set(i, (Long) elements[i]);
            }
            return array;
        }

        @Override
        public Long[] createArray(int length) {
            return new Long[length];
        }

        @Override
        public Iterable<Long> order(List<Long> insertionOrder) {
            return insertionOrder;
        }
    }

    @TestFactory
    Stream<DynamicTest> mapOfStrings() {
        return tests(
                MapTestSuiteBuilder.using(
                                new TestStringMapGenerator() {
                                    @Override
                                    protected Map<String, String> create(
                                            Map.Entry<String, String>[] entries) {
                                        Map<String, String> map =
                                                DurableMap.create(
                                                        dir.pool(),
                                                        ElementType.STRING,
                                                        ElementType.STRING);
                                        for (Map.Entry<String, String> entry : entries) {
                                            map.put(entry.getKey(), entry.getValue());
                                        }
                                        return map;
                                    }
                                })
                        .named("a map of strings")
                        .withFeatures(
                                MapFeature.GENERAL_PURPOSE,
                                MapFeature.ALLOWS_NULL_KEYS,
                                MapFeature.ALLOWS_NULL_VALUES,
                                MapFeature.ALLOWS_ANY_NULL_QUERIES,
                                MapFeature.FAILS_FAST_ON_CONCURRENT_MODIFICATION,
                                CollectionFeature.SUPPORTS_ITERATOR_REMOVE,
                                CollectionSize.ANY)
                        .createTestSuite());
    }

    @TestFactory
    Stream<DynamicTest> mapOfNumbers() {
        return tests(
                MapTestSuiteBuilder.using(new NumberMaps())
                        .named("a map of numbers")
                        .withFeatures(
                                MapFeature.GENERAL_PURPOSE,
                                MapFeature.ALLOWS_NULL_KEYS,
                                MapFeature.ALLOWS_NULL_VALUES,
                                MapFeature.ALLOWS_ANY_NULL_QUERIES,
                                MapFeature.FAILS_FAST_ON_CONCURRENT_MODIFICATION,
                                CollectionFeature.SUPPORTS_ITERATOR_REMOVE,
                                CollectionSize.ANY)
                        .createTestSuite());
    }

    private static final class NumberMaps implements TestMapGenerator<Double, Integer> {
        @Override
        public SampleElements<Map.Entry<Double, Integer>> samples() {
            return new SampleElements<>(
                    Map.entry(0.0, 0),
                    Map.entry(-0.0, -1),
                    Map.entry(Double.NaN, Integer.MAX_VALUE),
                    Map.entry(Double.MIN_VALUE, Integer.MIN_VALUE),
                    Map.entry(1e300, 77));
        }

        @Override
        @SuppressWarnings("unchecked")
        public Map<Double, Integer> create(Object... entries) {
            Map<Double, Integer> map =
                    DurableMap.create(dir.pool(), ElementType.DOUBLE, ElementType.INTEGER);
            for (Object entry : entries) {
                map.put(
                        ((Map.Entry<Double, Integer>) entry).getKey(),
                        ((Map.Entry<Double, Integer>) entry).getValue());
            }
            return map;
        }

        @Override
        @SuppressWarnings("unchecked")
        public Map.Entry<Double, Integer>[] createArray(int length) {
            return (Map.Entry<Double, Integer>[]) new Map.Entry<?, ?>[length];
        }

        @Override
        public Iterable<Map.Entry<Double, Integer>> order(
                List<Map.Entry<Double, Integer>> insertionOrder) {
            return insertionOrder;
        }

        @Override
        public Double[] createKeyArray(int length) {
            return new Double[length];
        }

        @Override
        public Integer[] createValueArray(int length) {
            return new Integer[length];
        }
    }

    @TestFactory
    Stream<DynamicTest> treeOfStrings() {
        return tests(
                NavigableMapTestSuiteBuilder.using(
                                new TestStringSortedMapGenerator() {
                                    @Override
                                    protected SortedMap<String, String> create(
                                            Map.Entry<String, String>[] entries) {
                                        SortedMap<String, String> map =
                                                DurableTree.create(
                                                        dir.pool(),
                                                        ElementType.STRING,
                                                        ElementType.STRING);
                                        for (Map.Entry<String, String> entry : entries) {
                                            map.put(entry.getKey(), entry.getValue());
                                        }
                                        return map;
                                    }
                                })
                        .named("a sorted map of strings")
                        .withFeatures(
                                MapFeature.GENERAL_PURPOSE,
                                MapFeature.ALLOWS_NULL_VALUES,
                                MapFeature.FAILS_FAST_ON_CONCURRENT_MODIFICATION,
                                CollectionFeature.KNOWN_ORDER,
                                CollectionFeature.SUPPORTS_ITERATOR_REMOVE,
                                CollectionSize.ANY)
                        .createTestSuite());
    }

    @TestFactory
    Stream<DynamicTest> treeOfNumbers() {
        return tests(
                NavigableMapTestSuiteBuilder.using(new NumberTrees())
                        .named("a sorted map of numbers")
                        .withFeatures(
                                MapFeature.GENERAL_PURPOSE,
                                MapFeature.ALLOWS_NULL_VALUES,
                                MapFeature.FAILS_FAST_ON_CONCURRENT_MODIFICATION,
                                CollectionFeature.KNOWN_ORDER,
                                CollectionFeature.SUPPORTS_ITERATOR_REMOVE,
                                CollectionSize.ANY)
                        .createTestSuite());
    }

    private static final class NumberTrees implements TestSortedMapGenerator<Integer, Long> {
        @Override
        public SampleElements<Map.Entry<Integer, Long>> samples() {
            return new SampleElements<>(
                    Map.entry(-5, 0L),
                    Map.entry(0, -1L),
                    Map.entry(3, 3L),
                    Map.entry(4, 4L),
                    Map.entry(100, 5L));
        }

        @Override
        @SuppressWarnings("unchecked")
        public SortedMap<Integer, Long> create(Object... entries) {
            SortedMap<Integer, Long> map =
                    DurableTree.create(dir.pool(), ElementType.INTEGER, ElementType.LONG);
            for (Object entry : entries) {
                map.put(
                        ((Map.Entry<Integer, Long>) entry).getKey(),
                        ((Map.Entry<Integer, Long>) entry).getValue());
            }
            return map;
        }

        @Override
        @SuppressWarnings("unchecked")
        public Map.Entry<Integer, Long>[] createArray(int length) {
            return (Map.Entry<Integer, Long>[]) new Map.Entry<?, ?>[length];
        }

        @Override
        public Iterable<Map.Entry<Integer, Long>> order(
                List<Map.Entry<Integer, Long>> insertionOrder) {
            insertionOrder.sort(Map.Entry.comparingByKey());
            return insertionOrder;
        }

        @Override
        public Integer[] createKeyArray(int length) {
            return new Integer[length];
        }

        @Override
        public Long[] createValueArray(int length) {
            return new Long[length];
        }

        @Override
        public Map.Entry<Integer, Long> belowSamplesLesser() {
            return Map.entry(-100, -1L);
        }

        @Override
        public Map.Entry<Integer, Long> belowSamplesGreater() {
            return Map.entry(-99, -2L);
        }

        @Override
        public Map.Entry<Integer, Long> aboveSamplesLesser() {
            return Map.entry(200, -3L);
        }

        @Override
        public Map.Entry<Integer, Long> aboveSamplesGreater() {
            return Map.entry(201, -4L);
        }
    }
}
