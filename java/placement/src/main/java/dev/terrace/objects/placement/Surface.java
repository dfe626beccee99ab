package dev.terrace.objects.placement;

import dev.terrace.objects.StorageTier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.StringJoiner;

/// The paper's example (section 3.4, Fig. 3): two fields, of one object, on memory or persistent
/// memory. A field is accessed once; when memory is lost, it is computed again, which takes as long
/// as its iterations do, while from persistent memory it is had again in a time that is always the
/// same. Over how long an iteration takes and how often memory is lost, what each of the four
/// choices costs, and which is the cheapest.
///
/// @param setup what does not change over the surface
/// @param iterationNanos of the columns, how long an iteration takes
/// @param failures of the rows, how likely memory is lost
/// @param cells by row and column
public record Surface(
        Setup setup, List<Double> iterationNanos, List<Double> failures, List<List<Cell>> cells) {
    /// The four choices, the first field's device before the second's.
    public static final List<String> CHOICES =
            List.of("DRAM DRAM", "DRAM PMEM", "PMEM DRAM", "PMEM PMEM");

    /// The constants of the surface.
    ///
    /// @param dramNanos of an access to memory
    /// @param pmemNanos of an access to persistent memory
    /// @param restoreNanos how long it takes to have a field again from persistent memory after a
    ///   failure
    /// @param firstIterations that the first field's computation takes
    /// @param secondIterations that the second field's takes
    public record Setup(
            double dramNanos,
            double pmemNanos,
            double restoreNanos,
            int firstIterations,
            int secondIterations) {
        /// As the paper has it: 0.1 and 1 µs, 1 and 10 iterations. It does not say how long it
        /// takes to have a field again from persistent memory: an access.
        public static Setup paper() {
            return new Setup(100, 1000, 1000, 1, 10);
        }
    }

    /// A point of the surface.
    ///
    /// @param nanos what each of the choices costs
    /// @param best the number of the cheapest
    public record Cell(List<Double> nanos, int best) {}

    /// The surface over these columns and rows, each found by this solver.
    public static Surface of(
            Setup setup, List<Double> iterationNanos, List<Double> failures, Solver solver) {
        List<List<Cell>> cells = new ArrayList<>();
        for (double failure : failures) {
            cells.add(
                    iterationNanos.stream()
                            .map(nanos -> cell(problem(setup, nanos, failure), solver))
                            .toList());
        }
        return new Surface(
                setup, List.copyOf(iterationNanos), List.copyOf(failures), List.copyOf(cells));
    }

    /// The paper's example: iterations of 1 µs to 10 ms, and failures of 0.01 % to 100 %, so many
    /// points along each side.
    public static Surface paper(int points, Solver solver) {
        return of(Setup.paper(), steps(1e3, 1e7, points), steps(1e-4, 1, points), solver);
    }

    private static List<Double> steps(double from, double to, int points) {
        if (points < 2) {
            throw new IllegalArgumentException(
                    "a surface of " + points + " points along a side: at least 2");
        }
        List<Double> steps = new ArrayList<>();
        for (int i = 0; i < points; i++) {
            steps.add(from * Math.pow(to / from, i / (points - 1.0)));
        }
        return steps;
    }

    /// The example at a point, by the paper's model. A failure is of the machine: both devices are
    /// used again after it.
    static PlacementProblem problem(Setup setup, double iterationNanos, double failure) {
        List<Device> devices =
                List.of(
                        device(StorageTier.DRAM, setup.dramNanos).failure(failure),
                        device(StorageTier.PMEM, setup.pmemNanos).failure(failure));
        return new PlacementProblem(
                devices,
                List.of(0L, 0L),
                List.of(
                        field("field 1", devices, setup, setup.firstIterations * iterationNanos),
                        field("field 2", devices, setup, setup.secondIterations * iterationNanos)));
    }

    private static Device device(StorageTier tier, double nanos) {
        return Device.of(tier, CostTable.constant(nanos), CostTable.constant(nanos));
    }

    private static PlacementField field(
            String name, List<Device> devices, Setup setup, double recomputeNanos) {
        double[] recompute = {recomputeNanos, setup.restoreNanos};
        List<Choice> choices = new ArrayList<>();
        for (int i = 0; i < recompute.length; i++) {
            Device device = devices.get(i);
            double failures =
                    CostModel.PAPER.failureNanos(1, 1, recompute[i], device.failureProbability());
            choices.add(new Choice(device.read().nanos(0), failures, List.of(0L, 0L), ""));
        }
        return new PlacementField(new FieldName("Object", name), true, choices);
    }

    private static Cell cell(PlacementProblem problem, Solver solver) {
        List<Double> nanos = new ArrayList<>();
        for (int choice = 0; choice < CHOICES.size(); choice++) {
            nanos.add(problem.cost(new int[] {choice >> 1, choice & 1}));
        }
        List<Integer> best = solver.solve(problem).assignment();
        return new Cell(List.copyOf(nanos), best.get(0) << 1 | best.get(1));
    }

    /// As lines of comma-separated values, with a head.
    public String csv() {
        StringBuilder lines = new StringBuilder("iteration_ns,failure_probability");
        CHOICES.forEach(choice ->
                lines.append(',')
                        .append(choice.toLowerCase(Locale.ROOT).replace(' ', '_'))
                        .append("_ns"));
        lines.append(",best\n");
        for (int row = 0; row < failures.size(); row++) {
            for (int column = 0; column < iterationNanos.size(); column++) {
                Cell cell = cells.get(row).get(column);
                StringJoiner line = new StringJoiner(",", "", "\n");
                line.add(number(iterationNanos.get(column))).add(number(failures.get(row)));
                cell.nanos.forEach(nanos -> line.add(number(nanos)));
                lines.append(line.add(CHOICES.get(cell.best)));
            }
        }
        return lines.toString();
    }

    private static String number(double value) {
        return String.format(Locale.ROOT, "%.6g", value);
    }

    /// As a picture: how much dearer memory is than the cheapest choice, or how much cheaper, and
    /// lines where the cheapest choice changes.
    public String svg() {
        double[][] heights = new double[failures.size()][];
        Arrays.setAll(
                heights,
                row ->
                        cells.get(row).stream()
                                .mapToDouble(cell ->
                                        Math.log10(cell.nanos.getFirst() / cell.nanos.getLast()))
                                .toArray());
        int[][] kinds = new int[failures.size()][];
        Arrays.setAll(kinds, row -> cells.get(row).stream().mapToInt(Cell::best).toArray());
        return new HeatMap(
                        "Two fields, "
                                + setup.firstIterations
                                + " and "
                                + setup.secondIterations
                                + " iterations: where each costs least",
                        new HeatMap.Axis("time of an iteration", "ns", iterationNanos),
                        new HeatMap.Axis("probability of a failure", "", failures),
                        "both in DRAM cost, times what both in PMEM cost",
                        CHOICES.stream().map(choice -> choice.replace(" ", " | ")).toList(),
                        heights,
                        kinds,
                        0.01)
                .svg();
    }
}
