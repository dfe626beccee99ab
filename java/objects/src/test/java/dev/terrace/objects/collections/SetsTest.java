package dev.terrace.objects.collections;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.InMemory;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.SchemaMismatchException;
import dev.terrace.objects.StaleReferenceException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;
import java.util.function.BiFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/// Sets in a pool: what they are beside sets of `java.util`, which `JavaUtilTest` tries.
class SetsTest {
    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    @TempDir(factory = InMemory.class)
    Path dir;

    private static final List<BiFunction<Pool, String, Set<String>>> ROOTS =
            List.of(
                    (pool, name) -> DurableSet.root(pool, name, ElementType.STRING),
                    (pool, name) -> DurableSortedSet.root(pool, name, ElementType.STRING));

    @Test
    void eachOperationIsOneTransaction() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            for (BiFunction<Pool, String, Set<String>> root : ROOTS) {
                Set<String> set = root.apply(pool, "set " + ROOTS.indexOf(root));
                long before = pool.statistics().commits();
                assertTrue(set.addAll(List.of("a", "b", "c", "d")));
                assertTrue(set.removeAll(List.of("a", "x")));
                assertTrue(set.retainAll(List.of("c", "d")));
                assertTrue(set.remove("d"));
                assertEquals(before + 4, pool.statistics().commits());
                assertEquals(Set.of("c"), set);
            }
        }
    }

    @Test
    void aRootLeadsToTheSameSetLater() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            ROOTS.forEach(root -> root.apply(pool, "set " + ROOTS.indexOf(root)).add("kept"));
        }
        try (Pool pool = Pool.open(dir, SMALL)) {
            for (BiFunction<Pool, String, Set<String>> root : ROOTS) {
                Set<String> set = root.apply(pool, "set " + ROOTS.indexOf(root));
                assertEquals(Set.of("kept"), set);
                assertEquals(List.of(), pool.check().problems());
            }
            assertThrows(
                    SchemaMismatchException.class,
                    () -> DurableSet.root(pool, "set 0", ElementType.LONG));
            assertThrows(
                    SchemaMismatchException.class,
                    () -> DurableSet.root(pool, "set 1", ElementType.STRING));
        }
    }

    @Test
    void aDeletedSetIsSaidToBe() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurableSet<Long> set = DurableSet.create(pool, ElementType.LONG);
            set.add(5L);
            DurableSet<Long> same = DurableSet.at(pool, set.reference(), ElementType.LONG);
            assertEquals(set, same);
            assertNotNull(same.pool());
            set.delete();
            assertFalse(same.isAlive());
            assertThrows(StaleReferenceException.class, () -> same.contains(5L));
            assertThrows(StaleReferenceException.class, same::delete);
            DurableSortedSet<Long> sorted = DurableSortedSet.create(pool, ElementType.LONG);
            sorted.addAll(List.of(3L, 1L, 2L));
            Set<Long> view = sorted.headSet(3L);
            assertEquals(List.of(1L, 2L), List.copyOf(view));
            sorted.delete();
            assertThrows(StaleReferenceException.class, view::size);
        }
    }
}
