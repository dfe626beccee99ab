package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.jspecify.annotations.Nullable;

/// Writes parts of a table anew.
///
/// Invariant: a group of parts is replaced by what was written of it only if each of them is as it
/// was read, and by as many rows. So whatever others commit meanwhile stays.
final class RewriteWrite implements RequiresDistributionAndOrdering, BatchWrite {
    private final ManifestLog log;
    private final PartStore store;
    private final Manifest before;
    private final TableOptions options;
    private final RewritePlan plan;
    private @Nullable WriteJob job;
    private Optimization.@Nullable Rewritten result;

    RewriteWrite(
            ManifestLog log,
            PartStore store,
            Manifest before,
            TableOptions options,
            RewritePlan plan) {
        this.log = log;
        this.store = store;
        this.before = before;
        this.options = options;
        this.plan = plan;
    }

    /// A group with the parts that were written of its rows.
    private record Written(RewritePlan.Group group, List<Part> parts) {
        Written {
            long read = group.parts().stream().mapToLong(Part::live).sum();
            long rows = parts.stream().mapToLong(Part::live).sum();
            if (read != rows) {
                throw new IllegalStateException(
                        "parts with "
                                + read
                                + " rows would become parts with "
                                + rows
                                + ": nothing has changed");
            }
        }

        private Set<PartState> read() {
            return PartState.of(group.parts());
        }
    }

    @Override
    public String description() {
        return "optimization of " + log.root();
    }

    @Override
    public String toString() {
        return description();
    }

    @Override
    public BatchWrite toBatch() {
        return this;
    }

    @Override
    public Distribution requiredDistribution() {
        if (plan.sortBy().isEmpty()) {
            return Distributions.unspecified();
        }
        return plan.hasSortedPartitions()
                ? Distributions.clustered(plan.columns().partitionReferences())
                : Distributions.ordered(requiredOrdering());
    }

    @Override
    public int requiredNumPartitions() {
        return plan.sortBy().isEmpty() ? 0 : plan.tasks();
    }

    @Override
    public SortOrder[] requiredOrdering() {
        return plan.sortBy().isEmpty()
                ? new SortOrder[0]
                : ClusteredWrite.ordering(plan.columns().partitioning(), plan.sortBy());
    }

    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
        try {
            job = WriteJob.begin(log, store);
            return new TableWrite.WriterFactory(job.id(), store, plan.columns(), options);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private WriteJob job() {
        return Objects.requireNonNull(job, "the job has not begun");
    }

    /// Says what was done.
    Optimization.Rewritten result() {
        return Objects.requireNonNull(result, "it has not been committed");
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
        try {
            List<List<Part>> made = Arrays.stream(messages).map(TableWrite::parts).toList();
            List<Written> all = plan.sortBy().isEmpty() ? byTasks(made) : byPartitions(made);
            job().commit(present -> rewritten(present, all));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// @param made parts of the tasks, in their order
    private List<Written> byTasks(List<List<Part>> made) {
        List<Written> all = new ArrayList<>();
        int task = 0;
        for (RewritePlan.Group group : plan.groups()) {
            int end = task + group.tasks();
            List<Part> parts = made.subList(task, end).stream().flatMap(List::stream).toList();
            all.add(new Written(group, parts));
            task = end;
        }
        return all;
    }

    private List<Written> byPartitions(List<List<Part>> made) {
        TableColumns columns = plan.columns();
        Map<PartitionKey, List<Part>> parts =
                made.stream()
                        .flatMap(List::stream)
                        .collect(Collectors.groupingBy(columns::partitionOf));
        return plan.groups().stream()
                .map(group -> {
                    PartitionKey partition = columns.partitionOf(group.parts().getFirst());
                    return new Written(group, parts.getOrDefault(partition, List.of()));
                })
                .toList();
    }

    private Manifest rewritten(@Nullable Manifest present, List<Written> all)
            throws CommitConflictException {
        Manifest last = before.requireTable(present, description());
        Set<PartState> there = PartState.of(last.parts());
        List<Written> counts = all.stream().filter(each -> there.containsAll(each.read())).toList();
        if (counts.isEmpty()) {
            throw before.conflict(
                    last, description(), "changed or removed parts that it has written anew");
        }
        Set<PartState> gone = new HashSet<>();
        counts.forEach(each -> gone.addAll(each.read()));
        List<Part> parts = new ArrayList<>(last.parts());
        parts.removeIf(part -> gone.contains(PartState.of(part)));
        counts.forEach(each -> parts.addAll(each.parts));
        result = result(counts, all);
        return last.rewritten(parts);
    }

    private static Optimization.Rewritten result(List<Written> counts, List<Written> all) {
        List<Part> read = counts.stream().flatMap(each -> each.group.parts().stream()).toList();
        List<Part> made = counts.stream().flatMap(each -> each.parts.stream()).toList();
        int tried = all.stream().mapToInt(each -> each.group.parts().size()).sum();
        return new Optimization.Rewritten(
                read.size(),
                read.stream().mapToLong(Part::bytes).sum(),
                made.size(),
                made.stream().mapToLong(Part::bytes).sum(),
                tried - read.size());
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
        job().abort();
    }
}
