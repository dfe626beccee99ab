package dev.terrace.objects.evaluation.graph;

import dev.terrace.objects.evaluation.run.Jvm;
import java.util.List;

/// The measurements of graph search.
///
/// @param graph which graph
/// @param people of the graph's file
/// @param edges friendships in it
/// @param liveMib of the heap that heap objects and the program around them take, in MiB
/// @param plain each layout, on as much heap as Java chooses
/// @param limited each layout, on a heap of [#LIMITED] times what heap objects take
/// @param plentiful some layouts, with each collector on a heap of [#PLENTIFUL] times what heap
///   objects take
/// @param sweep heap objects on heaps of other sizes
/// @param quarter layouts on a quarter of what heap objects take: SELECT-PMEM at last
/// @param curves of fresh processes, on heap and in pools
record GraphMeasurements(
        String graph,
        int people,
        int edges,
        double liveMib,
        List<LayoutRuns> plain,
        List<LayoutRuns> limited,
        List<LayoutRuns> plentiful,
        List<LayoutRuns> sweep,
        List<LayoutRuns> quarter,
        List<CurveRuns> curves) {
    /// How many times what heap objects take a limited heap has.
    static final double LIMITED = 1.25;

    /// How many times what heap objects take a plentiful heap has.
    static final double PLENTIFUL = 4;

    /// Runs on a plentiful heap with this collector.
    List<LayoutRuns> plentiful(Jvm.Collector collector) {
        return plentiful.stream().filter(some -> some.jvm().collector() == collector).toList();
    }

    /// Of some runs those of a layout.
    static LayoutRuns of(List<LayoutRuns> runs, Layout layout) {
        return runs.stream().filter(some -> some.layout() == layout).findFirst().orElseThrow();
    }
}
