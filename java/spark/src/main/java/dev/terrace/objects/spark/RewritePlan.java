package dev.terrace.objects.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.IntStream;
import org.apache.spark.sql.types.StructType;

/// The parts of a table that an [Optimization] writes anew, and which of them become one.
///
/// Invariants:
/// * Groups have no part in common.
/// * No part gets so many rows that [RowIds] cannot number them: single rows of it could not be
///   deleted or updated any more.
/// * Nothing is written again and again: of the groups that a plan makes or leaves, no two fit into
///   one part, as far as parts have the bytes that their live rows had.
///
/// @param sortBy columns by which all rows are sorted: there is one group then
record RewritePlan(List<Group> groups, List<String> sortBy) {
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
        private List<RewriteScan.Input> inputs() {
            return IntStream.range(0, tasks)
                    .mapToObj(task ->
                            new RewriteScan.Input(
                                    parts.stream()
                                            .map(part -> RewriteScan.share(part, task, tasks))
                                            .toList()))
                    .toList();
        }
    }

    /// The plan for a table.
    ///
    /// @throws IllegalArgumentException if it has no column of a name by which rows are to be
    ///   sorted
    static RewritePlan of(Manifest manifest, Optimization wanted) {
        StructType schema = TerraceTable.schema(manifest);
        List<String> sortBy =
                wanted.sortBy().stream()
                        .map(name -> TableOptions.requireColumn("sort_by", name, schema))
                        .toList();
        List<Part> parts =
                manifest.parts().stream().filter(part -> isWanted(part, wanted)).toList();
        return new RewritePlan(
                sortBy.isEmpty() ? joined(parts, wanted) : together(parts, wanted), sortBy);
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

    /// All of them as one group, if that makes fewer parts of them.
    private static List<Group> together(List<Part> parts, Optimization wanted) {
        Group all = Group.of(parts, wanted.targetBytes());
        return isWorthIt(all, wanted) ? List.of(all) : List.of();
    }

    private static boolean isWorthIt(Group group, Optimization wanted) {
        return group.tasks < group.parts.size()
                || wanted.all() && !group.parts.isEmpty()
                || group.parts.stream().anyMatch(part -> hasManyDeleted(part, wanted));
    }

    /// Each part goes to the first group in which it has room. So parts that were written one after
    /// the other mostly stay together, and have narrow bounds.
    private static List<Group> joined(List<Part> parts, Optimization wanted) {
        Map<String, List<Bin>> bins = new TreeMap<>();
        for (Part part : parts) {
            List<Bin> there = bins.computeIfAbsent(place(part), _ -> new ArrayList<>());
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
    private static String place(Part part) {
        return part.pmem() == null && part.disk() == null ? "" : part.hosts().toString();
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
    List<RewriteScan.Input> inputs() {
        return sortBy.isEmpty()
                ? groups.stream().flatMap(group -> group.inputs().stream()).toList()
                : groups.getFirst().parts.stream()
                        .map(part -> new RewriteScan.Input(List.of(RewriteScan.share(part, 0, 1))))
                        .toList();
    }

    /// How many parts are written.
    int tasks() {
        return groups.stream().mapToInt(Group::tasks).sum();
    }
}
