package dev.terrace.objects.spark;

import com.esotericsoftware.kryo.DefaultSerializer;
import com.esotericsoftware.kryo.serializers.JavaSerializer;
import java.io.IOException;
import java.io.Serial;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.Set;
import java.util.function.Function;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// A write to a table: tasks make parts, and the driver commits them, behind those that are there
/// or instead of them.
final class TableWrite implements Write, BatchWrite {
    private final ManifestLog log;
    private final PartStore store;
    private final @Nullable Manifest before;
    private final StructType schema;
    private final TableOptions options;
    private final boolean replaces;
    private @Nullable WriteJob job;
    private @Nullable LogicalWriteInfo info;

    TableWrite(
            ManifestLog log,
            PartStore store,
            @Nullable Manifest before,
            StructType schema,
            TableOptions options,
            boolean replaces) {
        this.log = log;
        this.store = store;
        this.before = before;
        this.schema = schema;
        this.options = options;
        this.replaces = replaces;
        BlockLayout checked = new BlockLayout(schema, options::tierOf);
        assert checked.columns().size() == schema.size();
    }

    /// The write of which Spark knows this; null: no stream asks for it.
    TableWrite of(@Nullable LogicalWriteInfo ofWrite) {
        info = ofWrite;
        return this;
    }

    /// The message of a part's writer to the driver.
    ///
    /// @param part null: there were no rows
    @DefaultSerializer(JavaSerializer.class)
    record Written(@Nullable Part part) implements WriterCommitMessage {
        @Serial private static final long serialVersionUID = 1L;
    }

    /// The part of a writer's message; null: there is none.
    static @Nullable Part part(WriterCommitMessage message) {
        return ((Written) message).part;
    }

    /// Makes writers on executors.
    record WriterFactory(String job, PartStore store, StructType schema, TableOptions options)
            implements DataWriterFactory {
        @Serial private static final long serialVersionUID = 1L;

        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task) {
            return createWriter(partition, task, Written::new);
        }

        /// A writer that sends the driver such a message of its part.
        TableWriter createWriter(
                int partition, long task, Function<@Nullable Part, WriterCommitMessage> message) {
            BlockLayout layout = new BlockLayout(schema, options::tierOf);
            String name = WriteJob.partName(job, partition, task);
            return new TableWriter(store, name, options.blockRows(), layout, message);
        }
    }

    private static StructType withoutComments(StructType schema) {
        StructType plain = new StructType();
        for (StructField field : schema.fields()) {
            plain = plain.add(field.name(), field.dataType());
        }
        return plain;
    }

    /// The schema of a table that is made of such rows: all may be null in later ones, and of what
    /// else is known of a column only its comment stays.
    ///
    /// @throws IllegalArgumentException if two columns have the same name, as the session compares
    ///   names
    static StructType tableSchema(StructType rows) {
        requireDifferentNames(rows);
        StructField[] fields = rows.fields().clone();
        for (int i = 0; i < fields.length; i++) {
            StructField field =
                    new StructField(
                            fields[i].name(),
                            nullable(fields[i].dataType()),
                            true,
                            Metadata.empty());
            String comment = fields[i].getComment().getOrElse(() -> null);
            fields[i] = comment == null ? field : field.withComment(comment);
        }
        return new StructType(fields);
    }

    private static void requireDifferentNames(StructType rows) {
        boolean isCaseSensitive =
                Boolean.parseBoolean(SparkSession.active().conf().get("spark.sql.caseSensitive"));
        Set<String> names = new HashSet<>();
        for (String name : rows.fieldNames()) {
            if (!names.add(isCaseSensitive ? name : name.toLowerCase(Locale.ROOT))) {
                throw new IllegalArgumentException(
                        "two columns have the name " + name + ": give one another");
            }
        }
    }

    private static DataType nullable(DataType type) {
        return type instanceof ArrayType array
                ? new ArrayType(nullable(array.elementType()), true)
                : type;
    }

    @Override
    public String description() {
        return (replaces ? "replace " : "append to ") + log.root();
    }

    /// What `EXPLAIN` shows.
    @Override
    public String toString() {
        return description();
    }

    @Override
    public BatchWrite toBatch() {
        if (info != null) {
            TableOptions.requireKnown(info.options());
        }
        return this;
    }

    /// The write of one epoch of a streaming query.
    @Override
    public StreamingWrite toStreaming() {
        LogicalWriteInfo stream = Objects.requireNonNull(info, "a stream has an id");
        StructType rows = tableSchema(stream.schema());
        // Of streams Spark compares no columns with those of the table.
        if (!withoutComments(rows).equals(withoutComments(schema))) {
            throw new IllegalArgumentException(
                    "the stream has the columns "
                            + rows.simpleString()
                            + ", and "
                            + log.root()
                            + " has "
                            + schema.simpleString()
                            + ": select the table's columns in their order, cast to their types");
        }
        return new StreamWrite(this, stream.queryId());
    }

    @Override
    public WriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
        return new WriterFactory(job().id(), store, schema, options);
    }

    private WriteJob job() {
        try {
            if (job == null) {
                job = WriteJob.begin(log, store);
            }
            return job;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
        commit(parts(messages));
    }

    private static List<Part> parts(WriterCommitMessage[] messages) {
        List<Part> parts = new ArrayList<>();
        for (WriterCommitMessage message : messages) {
            Part part = part(message);
            if (part != null) {
                parts.add(part);
            }
        }
        return parts;
    }

    /// Commits these parts.
    void commit(List<Part> parts) {
        commit(present -> replaces ? replaced(present, parts) : appended(present, parts));
    }

    /// Commits what an epoch of a streaming query has written, unless it is there already, or is
    /// nothing.
    void commit(String query, long epoch, WriterCommitMessage[] messages) {
        List<Part> parts = parts(messages);
        commit(present -> {
            if (present == null) {
                return appended(null, parts).withEpoch(query, epoch);
            }
            if (present.hasEpoch(query, epoch) || parts.isEmpty() && !replaces) {
                return null;
            }
            // The result of a query in complete mode is all of the table, whoever wrote what is
            // there.
            Manifest next = appended(present, parts);
            return (replaces ? present.next(parts) : next).withEpoch(query, epoch);
        });
    }

    private void commit(WriteJob.Change change) {
        try {
            job().commit(change);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private Manifest first(List<Part> parts) {
        return new Manifest(
                Manifest.number(before) + 1,
                Manifest.TABLE,
                schema.json(),
                options.values(),
                parts);
    }

    private Manifest replaced(@Nullable Manifest present, List<Part> parts) throws IOException {
        return first(parts).after(before, present, log.root()).withStreamsOf(present);
    }

    private Manifest appended(@Nullable Manifest present, List<Part> parts) throws IOException {
        if (present == null) {
            return first(parts).after(before, null, log.root());
        }
        if (!log.requireKind(present, Manifest.TABLE).type().equals(schema.json())) {
            throw new CommitConflictException(
                    log.root()
                            + " has other columns since this write began, by somebody else's"
                            + " commit: look at them, and write again");
        }
        List<Part> all = new ArrayList<>(present.parts());
        all.addAll(parts);
        return present.next(all);
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
        Objects.requireNonNull(job, "the job has not begun").abort();
    }
}
