package dev.terrace.objects.spark;

import com.esotericsoftware.kryo.DefaultSerializer;
import com.esotericsoftware.kryo.serializers.JavaSerializer;
import java.io.IOException;
import java.io.Serial;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// A write to a table: tasks make parts, and the driver commits them, behind those that are there
/// or instead of them.
final class TableWrite implements ClusteredWrite, BatchWrite {
    private final ManifestLog log;
    private final PartStore store;
    private final @Nullable Manifest before;
    private final TableColumns columns;
    private final TableOptions options;
    private final Replacement replacement;
    private @Nullable WriteJob job;
    private @Nullable LogicalWriteInfo info;

    TableWrite(
            ManifestLog log,
            PartStore store,
            @Nullable Manifest before,
            TableColumns columns,
            TableOptions options,
            Replacement replacement) {
        this.log = log;
        this.store = store;
        this.before = before;
        this.columns = columns;
        this.options = options;
        this.replacement = replacement;
        BlockLayout checked = new BlockLayout(columns.schema(), options::tierOf);
        assert checked.columns().size() == columns.schema().size();
    }

    /// The write of which Spark knows this; null: no stream asks for it.
    TableWrite of(@Nullable LogicalWriteInfo ofWrite) {
        info = ofWrite;
        return this;
    }

    /// The message of a task's writer to the driver.
    @DefaultSerializer(JavaSerializer.class)
    record Written(List<Part> parts) implements WriterCommitMessage {
        @Serial private static final long serialVersionUID = 1L;
    }

    /// The parts of a writer's message.
    static List<Part> parts(WriterCommitMessage message) {
        return ((Written) message).parts;
    }

    /// Makes writers on executors.
    record WriterFactory(String job, PartStore store, TableColumns columns, TableOptions options)
            implements DataWriterFactory {
        @Serial private static final long serialVersionUID = 1L;

        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task) {
            return createWriter(partition, task, Written::new);
        }

        /// A writer that sends the driver such a message of its parts.
        TableWriter createWriter(
                int partition, long task, Function<List<Part>, WriterCommitMessage> message) {
            String name = WriteJob.partName(job, partition, task);
            return new TableWriter(store, name, columns, options, message);
        }
    }

    @Override
    public TableColumns columns() {
        return columns;
    }

    @Override
    public TableOptions options() {
        return options;
    }

    @Override
    public String description() {
        return switch (replacement) {
                    case Replacement.Nothing _ -> "append to ";
                    case Replacement.Everything _ -> "replace ";
                    case Replacement.Where _ -> "replace some rows of ";
                    case Replacement.Partitions _ -> "replace partitions of ";
                }
                + log.root();
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
        TableOptions.requireStream(stream.options());
        StructType rows = TableSchema.of(stream.schema());
        // Of streams Spark compares no columns with those of the table.
        if (!TableSchema.withoutComments(rows)
                .equals(TableSchema.withoutComments(columns.schema()))) {
            throw new IllegalArgumentException(
                    "the stream has the columns "
                            + rows.simpleString()
                            + ", and "
                            + log.root()
                            + " has "
                            + columns.schema().simpleString()
                            + ": select the table's columns in their order, cast to their types");
        }
        return new StreamWrite(this, stream.queryId());
    }

    @Override
    public WriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
        return new WriterFactory(job().id(), store, columns, options);
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
        return Arrays.stream(messages).flatMap(message -> parts(message).stream()).toList();
    }

    /// Commits these parts.
    void commit(List<Part> parts) {
        commit(present ->
                switch (replacement) {
                    case Replacement.Nothing _ -> appended(present, parts);
                    case Replacement.Parts some when before != null ->
                            some.replaced(parts, before, present, description());
                    default -> replaced(present, parts);
                });
    }

    /// Commits what an epoch of a streaming query has written, unless it is there already, or is
    /// nothing.
    void commit(String query, long epoch, WriterCommitMessage[] messages) {
        List<Part> parts = parts(messages);
        boolean replaces = !(replacement instanceof Replacement.Nothing);
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
        return Manifest.ofTable(Manifest.number(before) + 1, columns, options.values(), parts);
    }

    private Manifest replaced(@Nullable Manifest present, List<Part> parts) throws IOException {
        return first(parts).after(before, present, log.root()).withStreamsOf(present);
    }

    private Manifest appended(@Nullable Manifest present, List<Part> parts) throws IOException {
        if (present == null) {
            return first(parts).after(before, null, log.root());
        }
        if (!TableColumns.of(log.requireKind(present, Manifest.TABLE)).equals(columns)) {
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
