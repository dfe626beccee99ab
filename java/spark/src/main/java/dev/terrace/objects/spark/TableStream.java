package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.jspecify.annotations.Nullable;

/// A stream of the rows of a table, and of those that are added to it. Each batch reads the parts
/// between two offsets. Manifests and parts never change, so a batch that runs again reads the same
/// rows.
final class TableStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    private final TableScan scan;
    private final TableCommits commits;
    private final StreamOptions options;

    /// The last commit that a query with the trigger `AvailableNow` reads; null: it reads all.
    private @Nullable Long end;

    TableStream(TableScan scan, TableCommits commits, StreamOptions options) {
        this.scan = scan;
        this.commits = commits;
        this.options = options;
    }

    /// What the progress of a query shows.
    @Override
    public String toString() {
        return scan.name();
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        try {
            end = commits.last();
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// Where a query without a checkpoint begins.
    @Override
    public TableOffset initialOffset() {
        try {
            long last = end == null ? commits.last() : end;
            String start = options.startingVersion();
            if (start == null) {
                return TableOffset.ofRows(last);
            }
            long first =
                    start.equalsIgnoreCase(StreamOptions.LATEST) ? last + 1 : Long.parseLong(start);
            if (first > last + 1) {
                throw new IllegalArgumentException(
                        "option "
                                + StreamOptions.STARTING_VERSION
                                + ": the last commit of "
                                + scan.name()
                                + " is "
                                + last
                                + ", so the next one is "
                                + (last + 1)
                                + ", not "
                                + first);
            }
            return commits.from(first);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public TableOffset deserializeOffset(String json) {
        return TableOffset.parse(json, scan.name());
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
        return options.limit();
    }

    @Override
    public TableOffset latestOffset() {
        return latestOffset(initialOffset(), ReadLimit.allAvailable());
    }

    @Override
    public TableOffset latestOffset(Offset start, ReadLimit limit) {
        Admission admission = new Admission(limit);
        TableOffset offset = (TableOffset) start;
        try {
            // Also if the query has read all that it is to read.
            commits.require(offset);
            while (end == null || offset.commit() < end) {
                TableCommits.Commit next = next(offset, start);
                if (next == null) {
                    break;
                }
                int part = offset.part();
                while (part < next.brings().size() && admission.takes(next.part(part))) {
                    part++;
                }
                if (part < next.brings().size()) {
                    return part == offset.part() ? offset : offset.within(part, next.state());
                }
                offset = offset.behind(next.state());
            }
            return offset;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// The commit behind an offset; null: the batch ends there. Rows that come before a commit at
    /// which the stream ends are a batch of their own, so that they are not kept from anybody.
    private TableCommits.@Nullable Commit next(TableOffset offset, Offset start)
            throws IOException {
        try {
            return commits.after(offset);
        } catch (IllegalStateException e) {
            if (offset.equals(start)) {
                throw e;
            }
            return null;
        }
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        TableOffset from = (TableOffset) start;
        TableOffset to = (TableOffset) end;
        try {
            commits.require(to);
            // The first batch may run again in another process, where Spark asks again where a
            // query begins: that is later then.
            return scan.tasks(inputs(from.isBeginning() ? to.beginning() : from, to));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private List<TableScan.PartInput> inputs(TableOffset from, TableOffset to) throws IOException {
        if (to.isBefore(from) || !to.hasBeginningOf(from)) {
            throw damaged(from, to);
        }
        List<TableScan.PartInput> inputs = new ArrayList<>();
        TableOffset offset = from;
        while (offset.isBefore(to)) {
            boolean isLast = offset.commit() == to.commit();
            TableCommits.Commit next = commits.after(offset);
            int parts = next == null ? -1 : next.brings().size();
            int end = isLast ? to.part() : parts;
            if (next == null || offset.part() > end || end > parts) {
                throw damaged(from, to);
            }
            for (int i = offset.part(); i < end; i++) {
                inputs.addAll(scan.inputs(next.brings().get(i), next.part(i)));
            }
            offset = isLast ? to : offset.behind(next.state());
        }
        return inputs;
    }

    private IllegalStateException damaged(TableOffset from, TableOffset to) {
        return new IllegalStateException(
                "the checkpoint of a stream of "
                        + scan.name()
                        + " goes from "
                        + from.json()
                        + " to "
                        + to.json()
                        + ", and the table has no such commits or parts: restore the checkpoint, or"
                        + " start the query with a new checkpointLocation");
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return scan.createStreamReaderFactory();
    }

    @Override
    public void commit(Offset offset) {
        // Nothing is kept for batches that may run again but what the table keeps.
    }

    @Override
    public void stop() {
        // Nothing is open.
    }
}
