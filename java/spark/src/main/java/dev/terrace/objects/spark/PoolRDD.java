package dev.terrace.objects.spark;

import dev.terrace.objects.Pool;
import java.io.IOException;
import java.io.Serial;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.InterruptibleIterator;
import org.apache.spark.Partition;
import org.apache.spark.SparkContext;
import org.apache.spark.TaskContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.util.TaskCompletionListener;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.reflect.ClassTag;

/// An RDD that is computed from the pools of a directory, one after the other. Each pool is open
/// read-only from the beginning of its task to its end.
///
/// @param <T> what is made
final class PoolRDD<T> extends RDD<T> {
    @Serial private static final long serialVersionUID = 1L;

    private final PartStore store;
    private final Part[] parts;
    private final Work<T> work;

    /// The work on a pool.
    ///
    /// @param <T> what is made
    @FunctionalInterface
    interface Work<T> extends Serializable {
        /// Elements, which are not to depend on the pool.
        Iterator<T> on(Pool pool) throws Exception;
    }

    /// A part, as a partition of an RDD.
    private record PartPartition(int index, Part part) implements Partition {
        @Serial private static final long serialVersionUID = 1L;

        @Override
        public int hashCode() {
            return index;
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof PartPartition that && that.index == index;
        }
    }

    PoolRDD(
            SparkContext context,
            PartStore store,
            List<Part> parts,
            Work<T> work,
            ClassTag<T> tag) {
        super(
                context,
                CollectionConverters.<org.apache.spark.Dependency<?>>asScala(List.of()).toSeq(),
                tag);
        this.store = store;
        this.parts = parts.toArray(new Part[0]);
        this.work = work;
    }

    @Override
    public Partition[] getPartitions() {
        Partition[] partitions = new Partition[parts.length];
        for (int i = 0; i < partitions.length; i++) {
            partitions[i] = new PartPartition(i, parts[i]);
        }
        return partitions;
    }

    @Override
    public Seq<String> getPreferredLocations(Partition partition) {
        return CollectionConverters.asScala(((PartPartition) partition).part.hosts()).toSeq();
    }

    @Override
    public scala.collection.Iterator<T> compute(Partition partition, TaskContext task) {
        try {
            Pool pool = store.open(((PartPartition) partition).part);
            TaskCompletionListener whenDone = ended -> pool.close();
            task.addTaskCompletionListener(whenDone);
            return new InterruptibleIterator<>(task, CollectionConverters.asScala(work.on(pool)));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }
}
