package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableArray;
import dev.terrace.objects.collections.DurableCollection;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.function.Function;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/// Collections whose content does not fit into a transaction are cleared and deleted at once, and
/// what they held is freed in parts.
class RemainsTest {
    /// Three words for each text would not fit into the log of a pool with extents of a MiB.
    private static final int COUNT = 20_000;

    private static final PoolOptions SMALL = PoolOptions.defaults().extents(1 << 20);

    @TempDir(factory = InMemory.class)
    Path dir;

    /// A large collection, and how it is made and cleared.
    record Kind(
            String name, Function<Pool, DurableCollection> make, Function<Pool, Runnable> clear) {
        @Override
        public String toString() {
            return name;
        }
    }

    private static String text(int i) {
        return "text number " + i;
    }

    private static DurableList<String> list(Pool pool) {
        return DurableList.root(pool, "list", ElementType.STRING);
    }

    private static DurableMap<String, String> map(Pool pool) {
        return DurableMap.root(
                pool, "map", ElementType.STRING, ElementType.STRING, StorageTier.DISK);
    }

    private static DurableTree<String, String> tree(Pool pool) {
        return DurableTree.root(pool, "tree", ElementType.STRING, ElementType.STRING);
    }

    private static DurableList<Long> numbers(Pool pool) {
        return DurableList.root(pool, "numbers", ElementType.LONG);
    }

    private static DurableMap<Integer, Integer> table(Pool pool) {
        return DurableMap.root(pool, "table", ElementType.INTEGER, ElementType.INTEGER);
    }

    /// In transactions that fit.
    private static void inParts(Pool pool, int count, java.util.function.IntConsumer work) {
        for (int from = 0; from < count; from += 1000) {
            int begin = from;
            pool.transact(() -> {
                for (int i = begin; i < Math.min(count, begin + 1000); i++) {
                    work.accept(i);
                }
            });
        }
    }

    static Stream<Kind> kinds() {
        return Stream.of(
                new Kind(
                        "list",
                        pool -> {
                            inParts(pool, COUNT, i -> list(pool).add(text(i)));
                            return list(pool);
                        },
                        pool -> list(pool)::clear),
                new Kind(
                        "map",
                        pool -> {
                            inParts(pool, COUNT, i -> map(pool).put(text(i), text(i + 1)));
                            return map(pool);
                        },
                        pool -> map(pool)::clear),
                new Kind(
                        "tree",
                        pool -> {
                            inParts(pool, COUNT, i -> tree(pool).put(text(i), text(i + 1)));
                            return tree(pool);
                        },
                        pool -> tree(pool)::clear),
                new Kind(
                        "list of numbers",
                        pool -> {
                            inParts(pool, 5 * COUNT, i -> numbers(pool).add((long) i));
                            return numbers(pool);
                        },
                        pool -> numbers(pool)::clear),
                new Kind(
                        "map of numbers",
                        pool -> {
                            inParts(pool, 5 * COUNT, i -> table(pool).put(i, i));
                            return table(pool);
                        },
                        pool -> table(pool)::clear));
    }

    private static void mustBeSound(Pool pool) {
        PoolReport report = pool.check();
        assertEquals(List.of(), report.problems());
        assertEquals(0, report.leakedBytes());
        assertTrue(pool.remains().isEmpty());
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void clearing(Kind kind) throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            kind.make.apply(pool);
            mustBeSound(pool);
            kind.clear.apply(pool).run();
            mustBeSound(pool);
            long used = pool.statistics().used().getFirst();
            assertTrue(used < 10_000, "nothing is left but the collection: " + used);
            kind.make.apply(pool);
            mustBeSound(pool);
            pool.transact(() -> {
                kind.clear.apply(pool).run();
                assertFalse(pool.remains().isEmpty());
            });
            mustBeSound(pool);
            assertEquals(used, pool.statistics().used().getFirst());
        }
    }

    @ParameterizedTest
    @MethodSource("kinds")
    void deleting(Kind kind) throws IOException {
        try (Pool pool = Pool.open(dir, SMALL)) {
            DurableCollection made = kind.make.apply(pool);
            assertThrows(
                    IllegalStateException.class,
                    () ->
                            pool.transact(() -> {
                                made.delete();
                                throw new IllegalStateException("on purpose");
                            }));
            assertTrue(made.isAlive());
            mustBeSound(pool);
            made.delete();
            assertThrows(StaleReferenceException.class, made::delete);
            pool.rootNames().forEach(name -> pool.setRootReference(name, 0));
            mustBeSound(pool);
            assertTrue(pool.statistics().used().getFirst() < 10_000);
        }
    }

    @Test
    void whoOpensThePoolNextGoesOnWithEachTransaction() {
        try (PoolRig rig = PoolRig.of(pool -> inParts(pool, 3000, i -> list(pool).add(text(i))))) {
            rig.begin();
            int[] commits = {0};
            int[] end = {0};
            rig.onCommit(() -> {
                if (commits[0]++ == 0) {
                    end[0] = rig.happened();
                }
            });
            list(rig.pool()).clear();
            rig.onCommit(() -> {});
            assertTrue(commits[0] > 3, commits[0] + " commits");
            int[] seen = {0};
            rig.forEachCrash(
                    rig.events().subList(0, end[0]),
                    false,
                    (happened, found) -> {
                        if (list(found).isEmpty()) {
                            seen[0]++;
                            int transactions = 0;
                            while (!found.remains().isEmpty()) {
                                assertEquals(List.of(), found.check().problems());
                                found.setRootReference("x", 0);
                                transactions++;
                            }
                            assertTrue(transactions > 3, transactions + " transactions");
                            mustBeSound(found);
                        }
                    });
            assertTrue(seen[0] > 0);
        }
    }

    @Test
    void aFullPoolClearsWhatItHolds() throws IOException {
        try (Pool pool = Pool.open(dir, SMALL.pmem(1 << 20))) {
            assertThrows(
                    PoolFullException.class,
                    () -> {
                        for (int i = 0; true; i++) {
                            list(pool).add(text(i));
                        }
                    });
            assertTrue(list(pool).size() > 5000);
            list(pool).clear();
            mustBeSound(pool);
            DurableArray<String> array = DurableArray.create(pool, ElementType.STRING, 5000);
            array.delete();
            mustBeSound(pool);
        }
    }
}
