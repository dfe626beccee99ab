package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.List;
import java.util.UUID;

/// Values of a class of the JDK, in their order, as elements, keys and values: what golden pools
/// hold of them. They are never others.
///
/// @param <E> the class
record GoldenValues<E>(ElementType<E> type, List<E> sorted) {
    /// What all roots' names begin with.
    static final String ROOTS = "values of ";

    /// Of each class.
    static final List<GoldenValues<?>> ALL =
            List.of(
                    new GoldenValues<>(
                            ElementType.UUID,
                            List.of(
                                    new UUID(Long.MIN_VALUE, -1),
                                    // As a field, this one would be null.
                                    new UUID(0x8f1c6e0b5a2d4973L, 0xe6b04d9f3c7a5128L),
                                    new UUID(0, 0),
                                    new UUID(1, 2))),
                    new GoldenValues<>(
                            ElementType.INSTANT,
                            List.of(
                                    Instant.MIN,
                                    Instant.ofEpochSecond(-5, 7),
                                    Instant.EPOCH,
                                    Instant.MAX)),
                    new GoldenValues<>(
                            ElementType.LOCAL_DATE,
                            List.of(
                                    LocalDate.MIN,
                                    LocalDate.of(1969, 7, 20),
                                    LocalDate.EPOCH,
                                    LocalDate.MAX)),
                    new GoldenValues<>(
                            ElementType.LOCAL_TIME,
                            List.of(LocalTime.MIN, LocalTime.ofNanoOfDay(1), LocalTime.MAX)),
                    new GoldenValues<>(
                            ElementType.LOCAL_DATE_TIME,
                            List.of(
                                    LocalDateTime.MIN,
                                    LocalDateTime.of(1969, 12, 31, 23, 59, 59, 999_999_999),
                                    LocalDateTime.MAX)),
                    new GoldenValues<>(
                            ElementType.DURATION,
                            List.of(
                                    Duration.ofSeconds(Long.MIN_VALUE),
                                    Duration.ofNanos(-1),
                                    Duration.ZERO,
                                    Duration.ofSeconds(Long.MAX_VALUE, 999_999_999))),
                    new GoldenValues<>(
                            ElementType.BIG_INTEGER,
                            List.of(
                                    BigInteger.TWO.pow(200).negate(),
                                    BigInteger.ONE.negate(),
                                    BigInteger.ZERO,
                                    BigInteger.TWO.pow(200))),
                    new GoldenValues<>(
                            ElementType.BIG_DECIMAL,
                            List.of(
                                    new BigDecimal("-1E+300"),
                                    new BigDecimal("-0.5"),
                                    new BigDecimal("0.00"),
                                    new BigDecimal("1E-200"),
                                    new BigDecimal("2.50"),
                                    new BigDecimal("123456789012345678901234567890.1"))));

    private DurableList<E> list(Pool pool) {
        return DurableList.root(pool, ROOTS + type + ": list", type);
    }

    private DurableMap<E, E> map(Pool pool) {
        return DurableMap.root(pool, ROOTS + type + ": map", type, type, StorageTier.DISK);
    }

    private DurableTree<E, E> tree(Pool pool) {
        return DurableTree.root(pool, ROOTS + type + ": tree", type, type);
    }

    /// Has a pool hold them.
    void make(Pool pool) {
        pool.transact(() -> {
            list(pool).addAll(sorted);
            list(pool).add(null);
            for (E each : sorted.reversed()) {
                map(pool).put(each, each);
                tree(pool).put(each, each);
            }
            map(pool).put(null, null);
        });
    }

    /// Throws unless a pool holds them.
    void expect(Pool pool) {
        DurableList<E> list = list(pool);
        assertEquals(sorted, list.subList(0, sorted.size()));
        assertEquals(sorted.size() + 1, list.size());
        assertNull(list.getLast());
        assertEquals(sorted, List.copyOf(tree(pool).keySet()));
        assertEquals(sorted, List.copyOf(tree(pool).values()));
        assertEquals(sorted.size() + 1, map(pool).size());
        for (E each : sorted) {
            assertEquals(each, map(pool).get(each));
            assertEquals(each, tree(pool).get(each));
        }
        assertNull(map(pool).get(null));
    }

    /// Deletes them, and their roots.
    void delete(Pool pool) {
        list(pool).delete();
        map(pool).delete();
        tree(pool).delete();
        for (String each : List.of("list", "map", "tree")) {
            pool.removeRoot(ROOTS + type + ": " + each);
        }
    }
}
