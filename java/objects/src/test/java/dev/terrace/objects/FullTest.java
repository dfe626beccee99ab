package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.DurableTree;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Predicate;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/// What is stored in a full pool can be removed, much at a time.
class FullTest {
    private static final int REMOVED_AT_ONCE = 1000;

    @TempDir(factory = InMemory.class)
    Path dir;

    /// Something that holds texts.
    private interface Holder {
        void add(long number, String text);

        /// Removes so many, if there are so many.
        void remove(int count);
    }

    private enum Kind {
        OBJECTS {
            @Override
            Holder in(Pool pool) {
                List<DurablePerson> people = new ArrayList<>();
                return holder(
                        (_, text) -> {
                            DurablePerson person = DurablePerson.create(pool);
                            people.add(person);
                            person.setName(text);
                        },
                        count -> {
                            List<DurablePerson> some =
                                    people.subList(0, Math.min(count, people.size()));
                            some.forEach(DurableObject::delete);
                            pool.store().afterCommit(some::clear);
                        });
            }
        },
        MAP {
            @Override
            Holder in(Pool pool) {
                DurableMap<Long, String> map =
                        DurableMap.root(pool, "map", ElementType.LONG, ElementType.STRING);
                return holder(map::put, count -> map.keySet().removeIf(everyThird(count)));
            }
        },
        TREE {
            @Override
            Holder in(Pool pool) {
                DurableTree<Long, String> tree =
                        DurableTree.root(pool, "tree", ElementType.LONG, ElementType.STRING);
                return holder(tree::put, count -> tree.keySet().removeIf(everyThird(count)));
            }
        },
        LIST {
            @Override
            Holder in(Pool pool) {
                DurableList<String> list = DurableList.root(pool, "list", ElementType.STRING);
                return holder(
                        (_, text) -> list.add(text),
                        count ->
                                list.subList(Math.max(0, list.size() - count), list.size())
                                        .clear());
            }
        };

        abstract Holder in(Pool pool);

        private static Predicate<Long> everyThird(int count) {
            int[] left = {count};
            return number -> number % 3 == 1 && left[0]-- > 0;
        }

        private static Holder holder(
                java.util.function.BiConsumer<Long, String> add,
                java.util.function.IntConsumer remove) {
            return new Holder() {
                @Override
                public void add(long number, String text) {
                    add.accept(number, text);
                }

                @Override
                public void remove(int count) {
                    remove.accept(count);
                }
            };
        }
    }

    @ParameterizedTest
    @EnumSource
    void aFullPoolLetsMuchBeRemovedAtOnce(Kind kind) throws IOException {
        for (int extents : new int[] {1, 2, 4}) {
            for (int length : new int[] {20, 2000}) {
                PoolOptions options =
                        PoolOptions.defaults().extents(1 << 20).pmem((long) extents << 20);
                try (Pool pool =
                        Pool.open(dir.resolve(kind + "-" + extents + "-" + length), options)) {
                    removeFrom(pool, kind.in(pool), "x".repeat(length), extents);
                }
            }
        }
    }

    private static void removeFrom(Pool pool, Holder holder, String text, int extents) {
        assertThrows(
                PoolFullException.class,
                () -> {
                    for (long number = 0; number < 1_000_000; number++) {
                        holder.add(number, text);
                    }
                });
        int count = REMOVED_AT_ONCE;
        while (!remove(pool, holder, count)) {
            // Where so much room cannot be kept, the remedy that is named is one.
            assertTrue(
                    extents < 2 && count > REMOVED_AT_ONCE / 8,
                    () -> extents + " extents of texts of " + text.length());
            count /= 2;
        }
        holder.add(-1, text);
        assertEquals(List.of(), pool.check().problems());
    }

    private static boolean remove(Pool pool, Holder holder, int count) {
        try {
            pool.transact(() -> holder.remove(count));
            return true;
        } catch (PoolFullException e) {
            assertTrue(
                    e.getMessage().contains("smaller transactions, also if it only deletes"),
                    e::getMessage);
            return false;
        }
    }
}
