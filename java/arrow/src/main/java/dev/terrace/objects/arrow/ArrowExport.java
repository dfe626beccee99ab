package dev.terrace.objects.arrow;

import dev.terrace.objects.DurableRecord;
import dev.terrace.objects.ObjectType;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDump;
import dev.terrace.objects.SchemaMismatchException;
import dev.terrace.objects.StoredType;
import dev.terrace.objects.collections.DurableSequence;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.channels.Channels;
import java.nio.channels.FileChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowFileWriter;
import org.apache.arrow.vector.ipc.ArrowReader;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.arrow.vector.ipc.ArrowWriter;
import org.apache.arrow.vector.types.TimeUnit;
import org.apache.arrow.vector.types.pojo.Schema;

/// Objects of a pool, or values of a list, as record batches of Apache Arrow: for a file, for a
/// stream, or for the program itself.
///
/// ```java
/// ArrowExport people = ArrowExport.of(pool, DurablePerson.TYPE);
/// people.save(file, ArrowFormat.FILE);
/// ```
///
/// Each object is a row, and each field a column; embedded objects are columns with columns. The
/// column `@id` names the object, and a reference is the id of its target, whether or not that has
/// been deleted. Fields in `DRAM`, and collections, have no column.
///
/// All rows of a batch are of one commit: the last one when the batch was read. An object that is
/// made or deleted between two batches may or may not be among them; all others are, each once. In
/// [Pool#readAlone] or [Pool#read] all batches are of one commit. If another process writes, a
/// number that it sets alone, outside of a transaction, may be of a later one.
///
/// An export is immutable: methods that change what is exported return another one. Java must be
/// started with `--add-opens=java.base/java.nio=ALL-UNNAMED`, which Arrow needs.
public final class ArrowExport {
    /// A pool keeps what it finds out of a type, so there is one of each class.
    private static final Map<StoredType, ObjectType<DurableRecord>> RECORDS =
            new ConcurrentHashMap<>();

    private final Pool pool;
    private final Function<Shape, Rows> rows;
    private final Shape shape;

    private ArrowExport(Pool pool, Function<Shape, Rows> rows, Shape shape) {
        this.pool = pool;
        this.rows = rows;
        this.shape = shape;
    }

    /// All objects of a class.
    public static ArrowExport of(Pool pool, ObjectType<?> type) {
        ObjectType<DurableRecord> record = asRecord(type);
        return new ArrowExport(pool, shape -> new ClassRows(pool, record, shape), Shape.DEFAULT);
    }

    /// All objects of a class that the program need not have, in the newest form that the pool has
    /// of it.
    ///
    /// @param className the tagged class, fully qualified
    /// @throws SchemaMismatchException if the pool has no such class
    public static ArrowExport of(Pool pool, String className) {
        List<StoredType> types = new PoolDump(pool).types();
        StoredType newest =
                types.stream()
                        .filter(type -> type.name().equals(className))
                        .max(Comparator.comparing(StoredType::id))
                        .orElseThrow(() ->
                                new SchemaMismatchException(
                                        "the pool has no class "
                                                + className
                                                + "; it has "
                                                + types.stream()
                                                        .map(StoredType::name)
                                                        .distinct()
                                                        .sorted()
                                                        .toList()));
        return of(pool, ObjectType.of(newest));
    }

    /// The objects of a list or an array, in its order; an element that is null is a row of nulls.
    /// If elements are inserted or removed between two batches, those behind them may be there
    /// twice, or be left out.
    ///
    /// @param type the class of the elements
    public static ArrowExport of(DurableSequence<?> list, ObjectType<?> type) {
        ObjectType<DurableRecord> record = asRecord(type);
        return new ArrowExport(
                list.pool(), shape -> new ListRows(list, record, shape), Shape.DEFAULT);
    }

    /// The values of a list or an array, in its order, in the column `value`. Of elements that are
    /// inserted or removed meanwhile, [#of(DurableSequence, ObjectType)] says more.
    ///
    /// @param type of the elements, which are no objects
    public static <E> ArrowExport of(DurableSequence<E> list, ElementType<E> type) {
        return new ArrowExport(
                list.pool(), shape -> new ValueRows(list, type, shape), Shape.DEFAULT);
    }

    /// The class as one that is known at run time only: its objects can be read by the numbers of
    /// their fields.
    private static ObjectType<DurableRecord> asRecord(ObjectType<?> type) {
        StoredType described =
                new StoredType(
                        0, type.name(), type.formerly(), type.fields(), true, type.isColumnar());
        return RECORDS.computeIfAbsent(described, ObjectType::of);
    }

    private ArrowExport with(Shape newShape) {
        return new ArrowExport(pool, rows, newShape);
    }

    /// The same export, with at most so many rows in a batch; 16384 without this. A batch of more
    /// than 64 MiB has fewer rows.
    public ArrowExport batches(int rowsMax) {
        return with(shape.withRows(rowsMax));
    }

    /// The same export, with these columns only, in the order of the class.
    ///
    /// @param names of fields; that of an embedded object stands for all of its fields, and `@id`
    ///   for the column of ids
    public ArrowExport columns(String... names) {
        return with(shape.withNames(names));
    }

    /// The same export, with points in time and durations in this unit; nanoseconds without this,
    /// which reach from 1677 to 2262, and 292 years. Shorter fractions are cut off.
    public ArrowExport times(TimeUnit unit) {
        return with(shape.withUnit(unit));
    }

    /// The same export, with a column of BigDecimals or BigIntegers as Arrow's decimals; as texts
    /// without this.
    ///
    /// @param precision digits, 76 at most
    /// @param scale digits behind the point
    public ArrowExport decimals(String column, int precision, int scale) {
        return with(shape.withDecimal(column, precision, scale));
    }

    /// The schema of the batches.
    ///
    /// @throws IllegalArgumentException if columns have been named that there are not
    public Schema schema() {
        return rows.apply(shape).schema();
    }

    /// A reader that reads the batches out of the pool, one after the other. Its vectors are used
    /// again for the next batch, unless the program takes them away.
    ///
    /// Each of its methods throws what the pool's getters throw. A value that Arrow's type cannot
    /// hold is refused with an `IllegalArgumentException` that names it. If a batch has failed, the
    /// next call reads the same one.
    ///
    /// @param allocator of the vectors
    /// @throws IllegalArgumentException if columns have been named that there are not
    /// @throws IllegalStateException if Java was started without the option that Arrow needs
    public ArrowReader reader(BufferAllocator allocator) {
        return new ExportReader(pool, rows.apply(shape), shape, allocator);
    }

    /// Writes all batches.
    ///
    /// @param out stays open
    /// @return the number of rows
    /// @throws IOException if they cannot be written
    public long write(WritableByteChannel out, ArrowFormat format) throws IOException {
        try (BufferAllocator allocator = new RootAllocator();
                ArrowReader reader = reader(allocator)) {
            VectorSchemaRoot root = reader.getVectorSchemaRoot();
            // Nothing is to be closed: what a writer closes is the channel.
            ArrowWriter writer =
                    format == ArrowFormat.FILE
                            ? new ArrowFileWriter(root, null, out)
                            : new ArrowStreamWriter(root, null, out);
            long count = 0;
            writer.start();
            while (reader.loadNextBatch()) {
                writer.writeBatch();
                count += root.getRowCount();
            }
            writer.end();
            return count;
        }
    }

    /// As [#write(WritableByteChannel, ArrowFormat)].
    public long write(OutputStream out, ArrowFormat format) throws IOException {
        long count = write(Channels.newChannel(out), format);
        out.flush();
        return count;
    }

    /// Writes all batches to a file, which gets its name when it is whole and on the disk. If this
    /// fails, there is no new file; if the process is killed, one with the file's name, a number
    /// and `.new` may be left.
    ///
    /// @return the number of rows
    /// @throws java.nio.file.FileAlreadyExistsException if there is a file of this name, and
    ///   [SaveOption#REPLACE] is not given
    /// @throws IOException if it cannot be written
    /// @throws dev.terrace.objects.PoolBusyException if rows of one commit are wanted, and other
    ///   processes commit all the time
    public long save(Path file, ArrowFormat format, SaveOption... options) throws IOException {
        List<SaveOption> given = List.of(options);
        NewFile.Content content = out -> write(out, format);
        return NewFile.make(
                file,
                given.contains(SaveOption.REPLACE),
                given.contains(SaveOption.ONE_COMMIT) ? out -> alone(out, content) : content);
    }

    /// Writes it as of one commit, which may take several attempts.
    private long alone(FileChannel out, NewFile.Content content) throws IOException {
        try {
            return pool.readAlone(() -> {
                try {
                    return content.write(out.truncate(0));
                } catch (IOException e) {
                    throw new UncheckedIOException(e);
                }
            });
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }
}
