package dev.terrace.objects.spark;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.sql.types.StructType;

/// The parts of a table that an [Optimization] writes anew, and which of them become one.
///
/// Invariants:
/// * Groups have no part in common, and the parts of a group are in one partition.
/// * No part gets so many rows that [RowIds] cannot number them: single rows of it could not be
///   deleted or updated any more.
/// * Nothing is written again and again: of the groups that a plan makes or leaves, no two fit into
///   one part, as far as parts have the bytes that their live rows had.
///
/// @param columns of the table
/// @param sortBy columns by which all rows of a partition are sorted: each partition is one group
///   then
/// @param targetBytes about how many bytes a part is to have
record RewritePlan(
        TableColumns columns, List<Group> groups, List<String> sortBy, long targetBytes) {
    /// So many parts are made of one at most: each task walks over all its blocks.
    private static final long SHARES_MAX = 1000;

    /// So many rows a part is to have at most. That is half of what can be numbered, as shares of a
    /// part, and ranges of sorted rows, differ in length.
    private static final long ROWS_MAX = RowIds.PART_ROWS_MAX / 2;

    RewritePlan {
        groups = List.copyOf(groups);
        sortBy = List.copyOf(sortBy);
    }

    /// Parts whose rows are written anew together.
    ///
    /// @param tasks how many parts they become
    record Group(List<Part> parts, int tasks) {
        Group {
            parts = List.copyOf(parts);
        }

        private static Group of(List<Part> parts, long targetBytes) {
            long bytes = parts.stream().mapToLong(RewritePlan::liveBytes).sum();
            long rows = parts.stream().mapToLong(Part::live).sum();
            long wanted = Math.max(Math.ceilDiv(bytes, targetBytes), Math.ceilDiv(rows, ROWS_MAX));
            return new Group(parts, Math.toIntExact(Math.min(SHARES_MAX * parts.size(), wanted)));
        }

        /// The input of each task, if the rows need no order: some parts, or a share of one.
        private List<PartsInput> inputs() {
            return IntStream.range(0, tasks)
                    .mapToObj(task ->
                            new PartsInput(
                                    parts.stream()
                                            .map(part -> RewriteScan.share(part, task, tasks))
                                            .toList()))
                    .toList();
        }
    }

    /// The plan for a table.
    ///
    /// @throws IllegalArgumentException if it has no column of a name by which rows are to be
    ///   sorted, or its values have no order
    static RewritePlan of(Manifest manifest, Optimization wanted) {
        TableColumns columns = TableColumns.of(manifest);
        List<String> sortBy = sortBy(manifest, columns.schema(), wanted);
        List<Part> parts =
                manifest.parts().stream().filter(part -> isWanted(part, wanted)).toList();
        List<Group> groups =
                sortBy.isEmpty()
                        ? joined(parts, columns, wanted)
                        : together(parts, columns, wanted);
        return new RewritePlan(columns, groups, sortBy, wanted.targetBytes());
    }

    private static List<String> sortBy(Manifest manifest, StructType schema, Optimization wanted) {
        return wanted.sortBy().isEmpty()
                ? new TableOptions(manifest.options()).sortBy(schema)
                : wanted.sortBy().stream()
                        .map(name -> TableOptions.requireColumn("sort_by", name, schema))
                        .map(name -> TableColumns.requireOrder("sort_by", name, schema))
                        .toList();
    }

    /// The plan as one or several, each of which a write of Spark's does. Sorted partitions that
    /// become one part each are written together, each by one task. A partition that becomes
    /// several is sorted for itself, because a task's share of all rows would end anywhere in it.
    List<RewritePlan> writes() {
        if (sortBy.isEmpty() || groups.size() < 2) {
            return groups.isEmpty() ? List.of() : List.of(this);
        }
        List<RewritePlan> writes = new ArrayList<>();
        List<Group> small = groups.stream().filter(group -> group.tasks == 1).toList();
        if (!small.isEmpty()) {
            writes.add(with(small));
        }
        groups.stream()
                .filter(group -> group.tasks > 1)
                .forEach(group -> writes.add(with(List.of(group))));
        return writes;
    }

    private RewritePlan with(List<Group> some) {
        return new RewritePlan(columns, some, sortBy, targetBytes);
    }

    /// Whether rows of several partitions are sorted at a time.
    boolean hasSortedPartitions() {
        return !sortBy.isEmpty() && groups.size() > 1;
    }

    private static boolean isWanted(Part part, Optimization wanted) {
        return wanted.all()
                || hasManyDeleted(part, wanted)
                || liveBytes(part) < wanted.minFill() * wanted.targetBytes();
    }

    private static boolean hasManyDeleted(Part part, Optimization wanted) {
        return part.rows() - part.live() > wanted.maxDeleted() * part.rows();
    }

    /// About how many bytes a part takes without its deleted rows.
    private static long liveBytes(Part part) {
        return Math.max(1, (long) (part.bytes() * ((double) part.live() / part.rows())));
    }

    /// All of a partition as one group, if that makes fewer parts of them.
    private static List<Group> together(
            List<Part> parts, TableColumns columns, Optimization wanted) {
        return parts.stream()
                .collect(
                        Collectors.groupingBy(
                                columns::partitionOf, LinkedHashMap::new, Collectors.toList()))
                .values()
                .stream()
                .map(partition -> Group.of(partition, wanted.targetBytes()))
                .filter(group -> isWorthIt(group, wanted))
                .toList();
    }

    private static boolean isWorthIt(Group group, Optimization wanted) {
        return group.tasks < group.parts.size()
                || wanted.all() && !group.parts.isEmpty()
                || group.parts.stream().anyMatch(part -> hasManyDeleted(part, wanted));
    }

    /// Each part goes to the first group in which it has room. So parts that were written one after
    /// the other mostly stay together, and have narrow bounds.
    private static List<Group> joined(List<Part> parts, TableColumns columns, Optimization wanted) {
        Map<List<Object>, List<Bin>> bins = new LinkedHashMap<>();
        for (Part part : parts) {
            List<Object> place = List.of(hosts(part), columns.partitionOf(part));
            List<Bin> there = bins.computeIfAbsent(place, _ -> new ArrayList<>());
            Bin room =
                    there.stream()
                            .filter(bin -> bin.hasRoom(part, wanted))
                            .findFirst()
                            .orElse(null);
            if (room == null) {
                room = new Bin();
                there.add(room);
            }
            room.add(part);
        }
        return bins.values().stream()
                .flatMap(List::stream)
                .map(bin -> Group.of(bin.parts, wanted.targetBytes()))
                .filter(group -> isWorthIt(group, wanted))
                .toList();
    }

    /// Parts in directories of nodes are joined only with others that one task can read.
    private static List<String> hosts(Part part) {
        return part.pmem() == null && part.disk() == null ? List.of() : part.hosts();
    }

    private static final class Bin {
        private final List<Part> parts = new ArrayList<>();
        private long bytes;
        private long rows;

        boolean hasRoom(Part part, Optimization wanted) {
            return bytes + liveBytes(part) <= wanted.targetBytes()
                    && rows + part.live() <= ROWS_MAX;
        }

        void add(Part part) {
            parts.add(part);
            bytes += liveBytes(part);
            rows += part.live();
        }
    }

    /// The input of each task.
    List<PartsInput> inputs() {
        return sortBy.isEmpty()
                ? groups.stream().flatMap(group -> group.inputs().stream()).toList()
                : groups.stream()
                        .flatMap(group -> group.parts.stream())
                        .map(part -> new PartsInput(List.of(RewriteScan.share(part, 0, 1))))
                        .toList();
    }

    /// How many parts are written anew.
    int partsBefore() {
        return groups.stream().mapToInt(group -> group.parts.size()).sum();
    }

    /// How many tasks write.
    int tasks() {
        int each = groups.stream().mapToInt(Group::tasks).sum();
        long bytes =
                groups.stream()
                        .flatMap(group -> group.parts.stream())
                        .mapToLong(RewritePlan::liveBytes)
                        .sum();
        return hasSortedPartitions()
                ? (int) Math.min(each, Math.ceilDiv(bytes, targetBytes))
                : each;
    }
}
