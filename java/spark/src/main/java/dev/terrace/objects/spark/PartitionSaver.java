package dev.terrace.objects.spark;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableObject;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.spi.Copier;
import java.io.IOException;
import java.io.Serial;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import org.apache.spark.TaskContext;
import org.apache.spark.api.java.function.Function2;

/// Saves a partition of plain objects in a pool of its own.
///
/// @param job that this is a part of
/// @param store where the pool is made
/// @param plain the tagged class
/// @param handle the class generated for it
record PartitionSaver<P, D extends DurableObject>(
        String job, PartStore store, Class<P> plain, Class<D> handle)
        implements Function2<Integer, Iterator<P>, Iterator<Part>> {
    @Serial private static final long serialVersionUID = 1L;

    /// Objects that are stored in one transaction.
    private static final int AT_ONCE = 256;

    @Override
    public Iterator<Part> call(Integer partition, Iterator<P> objects) throws IOException {
        if (!objects.hasNext()) {
            return Collections.emptyIterator();
        }
        PartWriter writer =
                store.create(WriteJob.partName(job, partition, TaskContext.get().taskAttemptId()));
        boolean done = false;
        try {
            Part part = writer.finish(save(writer.pool(), partition, objects), List.of());
            done = true;
            return List.of(part).iterator();
        } finally {
            if (!done) {
                writer.abandon();
            }
        }
    }

    private long save(Pool pool, int partition, Iterator<P> objects) {
        Copier<P, D> copier = Copier.of(plain, handle);
        long count = 0;
        List<P> some = new ArrayList<>(AT_ONCE);
        while (objects.hasNext()) {
            some.add(
                    Objects.requireNonNull(
                            objects.next(),
                            () -> "partition " + partition + " has an element that is null"));
            if (some.size() == AT_ONCE || !objects.hasNext()) {
                pool.transact(() -> some.forEach(object -> copier.create(pool, object)));
                count += some.size();
                some.clear();
            }
        }
        requireOnlyElements(pool, count);
        return count;
    }

    /// Readers of the partition walk over all objects of the class.
    private void requireOnlyElements(Pool pool, long count) {
        long there = 0;
        Cursor<D> cursor = pool.cursor(ObjectType.of(handle));
        while (cursor.next()) {
            there++;
        }
        if (there != count) {
            throw new IllegalArgumentException(
                    "objects of "
                            + plain.getName()
                            + " lead to others of that class, so that nobody could tell which are"
                            + " elements: save objects of a class that has one as a field");
        }
    }
}
