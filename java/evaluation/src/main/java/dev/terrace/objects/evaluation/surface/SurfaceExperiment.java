package dev.terrace.objects.evaluation.surface;

import dev.terrace.objects.evaluation.experiment.Experiment;
import dev.terrace.objects.evaluation.experiment.Settings;
import dev.terrace.objects.evaluation.report.Claim;
import dev.terrace.objects.evaluation.report.Conditions;
import dev.terrace.objects.evaluation.report.Figure;
import dev.terrace.objects.evaluation.report.Section;
import dev.terrace.objects.evaluation.report.Table;
import dev.terrace.objects.evaluation.run.Json;
import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.placement.BranchAndBoundSolver;
import dev.terrace.objects.placement.Surface;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/// Where two fields cost least: figure 3 of the paper. Nothing is measured: the costs are the
/// paper's.
public final class SurfaceExperiment implements Experiment {
    private static final int POINTS = 41;
    private static final int POINTS_QUICK = 9;
    private static final double PAPER_FAILURES = 0.01;
    private static final double MICROS = 1e3;
    private static final double DECADE = 10;
    private static final int BOTH_IN_DRAM = 0;
    private static final int BOTH_IN_PMEM = 3;

    /// The cheapest choice at each point.
    ///
    /// @param iterationNanos of the columns
    /// @param failures of the rows
    /// @param best by row and column, the number of the choice
    private record Measured(
            List<Double> iterationNanos, List<Double> failures, List<List<Integer>> best) {
        static Measured of(Surface surface) {
            return new Measured(
                    surface.iterationNanos(),
                    surface.failures(),
                    surface.cells().stream()
                            .map(row -> row.stream().map(Surface.Cell::best).toList())
                            .toList());
        }
    }

    @Override
    public Section run(Settings settings) throws IOException {
        settings.progress().accept("surface: solving the paper's example");
        Surface surface =
                Surface.paper(
                        settings.isQuick() ? POINTS_QUICK : POINTS, new BranchAndBoundSolver());
        return new Section(
                "surface",
                "Placement of two fields (figure 3)",
                List.of(
                        "Two fields, computed in 1 and in 10 iterations; an access takes 0.1 µs in"
                            + " DRAM and 1 µs in PMEM, and so long it takes to have a field again"
                            + " from PMEM after a failure, while in DRAM it is computed again. The"
                            + " paper plots the cost and says that PMEM is the best choice as"
                            + " recomputation gets dearer; it gives neither the axes' ranges nor"
                            + " how long an iteration takes, so here they are the picture's axes."
                            + " Each point is an integer program, solved."),
                Conditions.now(settings.command(), null),
                List.of(table(surface)),
                List.of(
                        new Figure(
                                "surface", "Figure 3: where two fields cost least", surface.svg())),
                claims(surface),
                Json.MAPPER.valueToTree(Measured.of(surface)));
    }

    /// The row of failures that is nearest to what the paper has.
    private static List<Surface.Cell> paperRow(Surface surface) {
        int nearest = 0;
        for (int row = 1; row < surface.failures().size(); row++) {
            if (distance(surface, row) < distance(surface, nearest)) {
                nearest = row;
            }
        }
        return surface.cells().get(nearest);
    }

    private static double distance(Surface surface, int row) {
        return Math.abs(Math.log(surface.failures().get(row) / PAPER_FAILURES));
    }

    /// The paper's row, a point of each power of ten.
    private static Table table(Surface surface) {
        List<List<String>> rows = new ArrayList<>();
        double next = surface.iterationNanos().getFirst();
        for (int column = 0; column < surface.iterationNanos().size(); column++) {
            double nanos = surface.iterationNanos().get(column);
            if (nanos > next * 0.99) {
                Surface.Cell cell = paperRow(surface).get(column);
                List<String> row = new ArrayList<>(List.of(Spread.number(nanos / MICROS)));
                cell.nanos().forEach(cost -> row.add(Spread.number(cost / MICROS)));
                row.add(Surface.CHOICES.get(cell.best()));
                rows.add(row);
                next *= DECADE;
            }
        }
        List<String> columns = new ArrayList<>(List.of("an iteration, µs"));
        Surface.CHOICES.forEach(choice -> columns.add(choice + ", µs"));
        columns.add("cheapest");
        return new Table(
                "Failures of 1 %: what the four choices cost, the first field's device before the"
                        + " second's",
                columns, rows);
    }

    /// Along each row recomputation gets dearer: no field is to leave PMEM that was there before.
    private static List<Claim> claims(Surface surface) {
        long falls = 0;
        for (List<Surface.Cell> row : surface.cells()) {
            for (int column = 1; column < row.size(); column++) {
                falls += inPmem(row.get(column)) < inPmem(row.get(column - 1)) ? 1 : 0;
            }
        }
        Surface.Cell first = paperRow(surface).getFirst();
        Surface.Cell last = paperRow(surface).getLast();
        boolean isAsStated =
                falls == 0 && first.best() == BOTH_IN_DRAM && last.best() == BOTH_IN_PMEM;
        return List.of(
                Claim.exact(
                        "placement of two fields: points at which a dearer recomputation takes a"
                                + " field out of PMEM",
                        "none: PMEM is chosen as recomputation grows",
                        falls
                                + "; at 1 % failures "
                                + Surface.CHOICES.get(first.best())
                                + " becomes "
                                + Surface.CHOICES.get(last.best()),
                        isAsStated ? 0.0 : Math.max(1.0, falls),
                        0.0));
    }

    private static int inPmem(Surface.Cell cell) {
        return Integer.bitCount(cell.best());
    }
}
