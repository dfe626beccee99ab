package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableObject;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolOptions;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.StoredSize;
import dev.terrace.objects.collections.DurableList;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import java.util.function.Supplier;

/// People in a pool. Only their references are on the heap, in the order of their numbers. One
/// cursor goes from one person to the other, so there are no handles that would have to be loaded
/// before each record. The code that reads fields exists for each class, because generated classes
/// have no common type with these fields.
///
/// @param <D> the generated class
abstract class PoolPeople<D extends DurableObject> extends People<D> {
    private static final String ROOT = "people";
    private static final int PER_TRANSACTION = 1000;

    private final Pool pool;
    private final long[] references;
    private final Cursor<D> cursor;

    /// Opens the pool.
    PoolPeople(Path pmem, Path disk, ObjectType<D> type) throws IOException {
        pool = Pool.open(pmem, options(disk).existing());
        references =
                DurableList.root(pool, ROOT, ElementType.of(type)).stream()
                        .mapToLong(DurableObject::reference)
                        .toArray();
        cursor = pool.cursor(type);
    }

    /// Makes the pool.
    ///
    /// @param maker makes a plain person
    /// @param copier copies it into a pool
    static <P extends Person, D extends DurableObject> void load(
            Path graph,
            Path pmem,
            Path disk,
            ObjectType<D> type,
            Supplier<P> maker,
            BiFunction<Pool, P, D> copier)
            throws IOException {
        try (Pool pool = Pool.open(pmem, options(disk))) {
            DurableList<D> people = DurableList.root(pool, ROOT, ElementType.of(type));
            List<P> some = new ArrayList<>();
            Runnable store =
                    () -> {
                        some.forEach(person -> people.add(copier.apply(pool, person)));
                        some.clear();
                    };
            GraphFile.read(
                    graph,
                    maker,
                    person -> {
                        some.add(person);
                        if (some.size() == PER_TRANSACTION) {
                            pool.transact(store);
                        }
                    });
            pool.transact(store);
        }
    }

    /// The bytes in use of a pool that `load` has made.
    static Stored stored(Path pmem, Path disk, ObjectType<?> type) throws IOException {
        try (Pool pool = Pool.open(pmem, options(disk).toRead())) {
            List<Long> used = pool.statistics().used();
            long people = DurableList.root(pool, ROOT, ElementType.of(type)).size();
            return new Stored(used.get(0), people * StoredSize.record(type.fields()), used.get(1));
        }
    }

    private static PoolOptions options(Path disk) {
        return PoolOptions.defaults().disk(StorageTier.SSD, disk);
    }

    /// The person with this number, until the next one is asked for.
    @Override
    final D person(int number) {
        return cursor.at(references[number]);
    }

    @Override
    public final void close() {
        pool.close();
    }
}
