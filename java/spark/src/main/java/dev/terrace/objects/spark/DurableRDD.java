package dev.terrace.objects.spark;

import dev.terrace.objects.Cursor;
import dev.terrace.objects.DurableObject;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.spi.Copier;
import java.io.IOException;
import java.io.Serial;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaRDD;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.api.java.function.FlatMapFunction;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/// An RDD of durable objects: a directory with a pool for each partition (the paper's PMemRDD,
/// section 3.5).
///
/// ```java
/// DurableRDD.save(
///         points, Point.class, DurablePoint.class, "/pmem/points", PartitionOptions.defaults());
/// DurableRDD<Point, DurablePoint> saved =
///         DurableRDD.open(context, Point.class, DurablePoint.class, "/pmem/points");
/// ```
///
/// Its elements are plain objects, copied out of the pools when a task comes to them: they may be
/// cached, collected and shuffled as any others, if the tagged class can be serialized.
/// [#mapInPlace] makes no copies. The elements of a partition are in the order in which they lie in
/// persistent memory. It stays what it was when it was opened, also if something else is saved in
/// the directory, as long as no [Snapshots#vacuum] removes it.
///
/// @param <P> the tagged class
/// @param <D> the class generated for it
public final class DurableRDD<P, D extends DurableObject> extends JavaRDD<P> {
    @Serial private static final long serialVersionUID = 1L;

    private final Class<D> handle;
    private final PartStore store;
    private final Manifest manifest;

    private DurableRDD(
            PoolRDD<P> objects,
            Class<P> plain,
            Class<D> handle,
            PartStore store,
            Manifest manifest) {
        super(objects, ClassTag$.MODULE$.apply(plain));
        this.handle = handle;
        this.store = store;
        this.manifest = manifest;
    }

    /// Saves objects, with all that they lead to. When this returns all of them count; if it
    /// throws, none.
    ///
    /// @param rdd any, as `dataset.javaRDD()`; each of its partitions becomes a pool, if it is not
    ///   empty
    /// @param plain the tagged class
    /// @param handle the class generated for it
    /// @param directory a path, or a URI of any file system that Hadoop knows
    /// @throws FileAlreadyExistsException if something is there, and `options` do not say that it
    ///   is replaced
    /// @throws CommitConflictException if somebody else has saved something there meanwhile
    /// @throws IllegalArgumentException if `handle` was generated for another class
    /// @throws UnsupportedOperationException if its file system cannot keep two who save at a time
    ///   apart
    /// @throws IOException if the directory cannot be read or written
    public static <P, D extends DurableObject> void save(
            JavaRDD<P> rdd,
            Class<P> plain,
            Class<D> handle,
            String directory,
            PartitionOptions options)
            throws IOException {
        Copier<P, D> checked = Copier.of(plain, handle);
        assert checked != null;
        Configuration configuration = rdd.context().hadoopConfiguration();
        ManifestLog log = new ManifestLog(directory, configuration);
        Manifest before = log.current();
        if (before != null && !options.overwrite()) {
            throw new FileAlreadyExistsException(
                    log.root().toString(),
                    null,
                    "there is something: save elsewhere, or with options that are overwriting()");
        }
        PartStore store = new PartStore(log.root(), options, configuration);
        WriteJob job = WriteJob.begin(log, store);
        PartitionSaver<P, D> saver = new PartitionSaver<>(job.id(), store, plain, handle);
        List<Part> parts;
        boolean done = false;
        try {
            parts = rdd.mapPartitionsWithIndex(saver, true).collect();
            done = true;
        } finally {
            if (!done) {
                job.abort();
            }
        }
        Manifest next =
                new Manifest(
                        Manifest.number(before) + 1,
                        Manifest.OBJECTS,
                        ObjectType.of(handle).name(),
                        Map.of(),
                        parts);
        job.commit(present -> next.after(before, present, log.root()));
    }

    /// Opens what was saved in a directory.
    ///
    /// @param plain the tagged class
    /// @param handle the class generated for it
    /// @param directory a path, or a URI of any file system that Hadoop knows
    /// @throws java.io.FileNotFoundException if nothing was saved there
    /// @throws IllegalArgumentException if it holds something else than objects of this class
    /// @throws IOException if the directory cannot be read
    public static <P, D extends DurableObject> DurableRDD<P, D> open(
            JavaSparkContext context, Class<P> plain, Class<D> handle, String directory)
            throws IOException {
        return open(context, plain, handle, directory, PartitionOptions.defaults());
    }

    /// As [#open(JavaSparkContext, Class, Class, String)], of a directory on a remote file system,
    /// whose pools are copied to each node as the options say.
    ///
    /// @throws IOException if the directory cannot be read
    public static <P, D extends DurableObject> DurableRDD<P, D> open(
            JavaSparkContext context,
            Class<P> plain,
            Class<D> handle,
            String directory,
            PartitionOptions options)
            throws IOException {
        Configuration configuration = context.hadoopConfiguration();
        ManifestLog log = new ManifestLog(directory, configuration);
        Manifest manifest = log.require(Manifest.OBJECTS);
        ObjectType<D> type = ObjectType.of(handle);
        if (!manifest.type().equals(type.name()) && !type.formerly().contains(manifest.type())) {
            throw new IllegalArgumentException(
                    log.root()
                            + " holds objects of "
                            + manifest.type()
                            + ", not of "
                            + type.name());
        }
        Copier<P, D> checked = Copier.of(plain, handle);
        assert checked != null;
        PartStore store = new PartStore(log.root(), options, configuration);
        PoolRDD<P> objects =
                new PoolRDD<>(
                        context.sc(),
                        store,
                        manifest.parts(),
                        pool -> copies(pool, plain, handle),
                        ClassTag$.MODULE$.apply(plain));
        return new DurableRDD<>(objects, plain, handle, store, manifest);
    }

    /// Plain objects, one after the other.
    private static <P, D extends DurableObject> Iterator<P> copies(
            Pool pool, Class<P> plain, Class<D> handle) {
        Copier<P, D> copier = Copier.of(plain, handle);
        Cursor<D> cursor = pool.cursor(ObjectType.of(handle));
        return new Iterator<>() {
            private boolean isAhead;
            private boolean hasNext;

            @Override
            public boolean hasNext() {
                if (!isAhead) {
                    hasNext = cursor.next();
                    isAhead = true;
                }
                return hasNext;
            }

            @Override
            public P next() {
                if (!hasNext()) {
                    throw new NoSuchElementException();
                }
                isAhead = false;
                return copier.load(cursor.get());
            }
        };
    }

    /// An RDD of the results of `work` for each partition. The work reads the objects in place,
    /// without copies: a cursor moves one handle from object to object. The results must not refer
    /// to the cursor or the handle, nor be computed from them after `work` has returned, because
    /// the pool is closed when the task ends.
    ///
    /// ```java
    /// JavaRDD<Double> sums = saved.mapInPlace(points -> {
    ///     double[] row = new double[12];
    ///     double sum = 0;
    ///     while (points.next()) {
    ///         points.get().copyCoordinates(row);
    ///         sum += row[0];
    ///     }
    ///     return List.of(sum).iterator();
    /// });
    /// ```
    ///
    /// @param <R> what it makes
    public <R> JavaRDD<R> mapInPlace(FlatMapFunction<Cursor<D>, R> work) {
        Class<D> of = handle;
        ClassTag<R> tag = ClassTag$.MODULE$.apply(Object.class);
        PoolRDD<R> made =
                new PoolRDD<>(
                        context(),
                        store,
                        manifest.parts(),
                        pool -> work.call(pool.cursor(ObjectType.of(of))),
                        tag);
        return new JavaRDD<>(made, tag);
    }

    /// How many objects there are, as the manifest says: no pool is opened.
    public long size() {
        return manifest.rows();
    }

    /// Bytes in use in all pools, on all tiers, as the manifest says.
    public long bytes() {
        return manifest.bytes();
    }
}
