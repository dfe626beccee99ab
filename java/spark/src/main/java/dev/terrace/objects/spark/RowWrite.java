package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.Serial;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.jspecify.annotations.Nullable;
import org.roaringbitmap.RoaringBitmap;

/// The write of a `DELETE`, `UPDATE` or `MERGE`: the driver joins what tasks have deleted with what
/// was deleted before, and commits that with the parts of added rows.
///
/// Invariant: what is committed comes after a manifest in which all parts that matter are as they
/// were in the one that was read. Those are parts of which it deletes rows, and, unless the table's
/// isolation is `snapshot`, all that the statement may have read.
final class RowWrite implements DeltaWrite, DeltaBatchWrite, ClusteredWrite {
    private final RowChanges changes;
    private final ManifestLog log;
    private final PartStore store;
    private final Manifest before;
    private final TableOptions options;
    private @Nullable WriteJob job;

    /// @param before what the statement has read
    RowWrite(
            RowChanges changes,
            ManifestLog log,
            PartStore store,
            Manifest before,
            TableOptions options) {
        this.changes = changes;
        this.log = log;
        this.store = store;
        this.before = before;
        this.options = options;
    }

    /// Makes writers on executors.
    private record WriterFactory(TableWrite.WriterFactory parts) implements DeltaWriterFactory {
        @Serial private static final long serialVersionUID = 1L;

        @Override
        public DeltaWriter<InternalRow> createWriter(int partition, long task) {
            return RowWriter.of(parts, partition, task);
        }
    }

    @Override
    public TableColumns columns() {
        return TableColumns.of(before);
    }

    @Override
    public boolean addsRows() {
        return changes.command() != RowLevelOperation.Command.DELETE;
    }

    @Override
    public TableOptions options() {
        return options;
    }

    @Override
    public String description() {
        return changes.description();
    }

    /// What `EXPLAIN` shows.
    @Override
    public String toString() {
        return description();
    }

    @Override
    public DeltaBatchWrite toBatch() {
        return this;
    }

    @Override
    public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
        try {
            job = WriteJob.begin(log, store);
            return new WriterFactory(
                    new TableWrite.WriterFactory(
                            job.id(), store, TableColumns.of(before), options));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private WriteJob job() {
        return Objects.requireNonNull(job, "the job has not begun");
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
        try {
            List<Part> added = new ArrayList<>();
            Map<String, RoaringBitmap> rows = new TreeMap<>();
            for (WriterCommitMessage message : messages) {
                RowWriter.Changed changed = (RowWriter.Changed) message;
                added.addAll(changed.added());
                for (Map.Entry<Integer, byte[]> part : changed.deleted().entrySet()) {
                    String name = before.parts().get(part.getKey()).name();
                    rows.computeIfAbsent(name, _ -> new RoaringBitmap())
                            .or(DeletionFiles.decode(part.getValue()));
                }
            }
            if (added.isEmpty() && rows.isEmpty()) {
                job().abort();
            } else {
                commit(added, rows);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// @param rows that are deleted, by the names of their parts
    private void commit(List<Part> added, Map<String, RoaringBitmap> rows) throws IOException {
        // Most conflicts are found here, before anything is read or written.
        requireUnchanged(log.current(), rows.keySet()::contains);
        for (Part part : before.parts()) {
            if (part.deletions() != null && rows.containsKey(part.name())) {
                rows.get(part.name()).or(store.deleted(part));
            }
        }
        Map<String, Deletions> deleted =
                rows.isEmpty() ? Map.of() : new DeletionFiles(log.root()).write(job().id(), rows);
        job().commit(present -> changed(present, added, deleted));
    }

    private Manifest changed(
            @Nullable Manifest present, List<Part> added, Map<String, Deletions> deleted)
            throws IOException {
        Manifest last = requireUnchanged(present, deleted.keySet()::contains);
        List<Part> parts = new ArrayList<>();
        for (Part part : last.parts()) {
            Part left = part.with(deleted.getOrDefault(part.name(), part.deletions()));
            if (left.live() > 0) {
                parts.add(left);
            }
        }
        parts.addAll(added);
        return last.next(parts);
    }

    private Manifest requireUnchanged(@Nullable Manifest present, Predicate<String> isChanged)
            throws IOException {
        Manifest last = before.requireTable(present, description());
        Predicate<Part> matters =
                part ->
                        isChanged.test(part.name())
                                || !options.isSnapshot() && changes.mayRead(part);
        Set<PartState> read = PartState.of(before, matters);
        Predicate<Manifest> isOther =
                each -> !each.hasColumnsOf(before) || !PartState.of(each, matters).equals(read);
        if (isOther.test(last)) {
            Manifest other = log.firstSince(before, last, isOther);
            throw conflict(
                    before.requireTable(other, description()),
                    PartState.of(other, matters).containsAll(read));
        }
        return last;
    }

    /// The exception for a commit of somebody else that does not go with this one.
    ///
    /// @param isAppend whether all that the statement has read is as it was
    private CommitConflictException conflict(Manifest other, boolean isAppend) {
        if (isAppend) {
            return before.conflict(
                    other,
                    description(),
                    Manifest.ADDED_ROWS,
                    ", or set the table's option isolation to snapshot, by which it does not mind"
                            + " such rows");
        }
        return before.conflict(
                other,
                description(),
                other.rewrites()
                        ? "written rows that it has read to other parts, by an optimization"
                        : "changed or removed rows beside those that it changes");
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
        job().abort();
    }
}
