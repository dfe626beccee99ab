package dev.terrace.objects.placement;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import java.util.stream.IntStream;
import org.jspecify.annotations.Nullable;
import org.ojalgo.optimisation.Expression;
import org.ojalgo.optimisation.ExpressionsBasedModel;
import org.ojalgo.optimisation.Optimisation;
import org.ojalgo.optimisation.Variable;
import org.ojalgo.optimisation.integer.IntegerStrategy;
import org.ojalgo.type.CalendarDateDuration;
import org.ojalgo.type.CalendarDateUnit;
import org.ojalgo.type.context.NumberContext;

/// A problem as ojAlgo has it: a binary variable for each field and each device that it may lie on.
/// Costs and bytes are scaled to about 1, costs counted from the cheapest device of each field, so
/// that large numbers do not swallow small differences.
final class IntegerProgram {
    private static final NumberContext TOLERANCE = NumberContext.of(12, 14);

    /// Cuts make these programs slower: no part of a variable is larger than 1.
    private static final IntegerStrategy.GMICutConfiguration NO_CUTS =
            new IntegerStrategy.GMICutConfiguration().withFractionality(1);

    /// The share of the time limit for explaining why a problem has no solution: a quick
    /// explanation matters more than the smallest one.
    private static final int EXPLANATION_SHARE = 10;

    private final PlacementProblem problem;
    private final Duration limit;

    /// The result of a search.
    ///
    /// @param assignment null if none was found
    /// @param isProved whether no other is better
    /// @param lowerBound what no assignment costs less than
    record Answer(int @Nullable [] assignment, boolean isProved, double lowerBound) {}

    /// A model, and its variables by field and device; null where a field may not be.
    private record Model(ExpressionsBasedModel model, @Nullable Variable[][] variables) {}

    IntegerProgram(PlacementProblem problem, Duration limit) {
        this.problem = problem;
        this.limit = limit;
    }

    /// The assignment that costs least, of those that fit. Rounding may let pass what is a few
    /// bytes too many: then these are taken off the room of the device, and it is solved again; but
    /// that may have cut off what fits to the byte, so nothing is proved.
    Answer leastCost() {
        long[] slack = new long[problem.devices().size()];
        boolean isExact = true;
        while (true) {
            Model model = newModel(limit);
            addCosts(model);
            addCapacities(model, slack);
            Optimisation.Result result = model.model.minimise();
            if (!result.getState().isFeasible()) {
                return new Answer(null, false, relaxedBound());
            }
            int[] assignment = assignment(model);
            long[] over = problem.overflow(assignment);
            if (Arrays.stream(over).allMatch(bytes -> bytes == 0)) {
                boolean isProved = isExact && result.getState().isOptimal();
                return new Answer(
                        assignment, isProved, isProved ? problem.cost(assignment) : relaxedBound());
            }
            isExact = false;
            // Twice as much each time: of large rooms a few bytes are less than what rounding takes
            // for the same.
            Arrays.setAll(
                    slack,
                    device -> over[device] == 0 ? slack[device] : 2 * slack[device] + over[device]);
        }
    }

    /// The assignment in which the fewest bytes are too many, of all devices together: the best of
    /// those that programs find for each set of devices that could be the full ones. So all
    /// programs have binary variables only.
    Answer leastOverflow() {
        List<Integer> limited =
                IntStream.range(0, problem.devices().size())
                        .filter(this::isLimited)
                        .boxed()
                        .toList();
        int sets = 1 << limited.size();
        long end = System.nanoTime() + limit.dividedBy(EXPLANATION_SHARE).toNanos();
        boolean isProved = true;
        int @Nullable [] best = null;
        for (int set = 1; set < sets; set++) {
            Model model = newModel(Duration.ofNanos(end - System.nanoTime()));
            for (int i = 0; i < limited.size(); i++) {
                addRoom(model, limited.get(i), 0, (set >>> i & 1) != 0);
            }
            Optimisation.Result result = model.model.minimise();
            isProved &=
                    result.getState().isOptimal()
                            || result.getState() == Optimisation.State.INFEASIBLE;
            int @Nullable [] found = result.getState().isFeasible() ? assignment(model) : null;
            if (found != null && (best == null || totalOverflow(found) < totalOverflow(best))) {
                best = found;
            }
        }
        return new Answer(best, isProved, 0);
    }

    private double totalOverflow(int[] assignment) {
        return Arrays.stream(problem.overflow(assignment)).asDoubleStream().sum();
    }

    private Model newModel(Duration time) {
        Optimisation.Options options = new Optimisation.Options();
        options.abort(
                new CalendarDateDuration(Math.max(1, time.toMillis()), CalendarDateUnit.MILLIS));
        options.suffice(
                new CalendarDateDuration(Math.max(1, time.toMillis()), CalendarDateUnit.MILLIS));
        options.integer(
                IntegerStrategy.DEFAULT
                        .withParallelism(() -> 1)
                        .withGapTolerance(TOLERANCE)
                        .withGMICutConfiguration(NO_CUTS));
        ExpressionsBasedModel model = new ExpressionsBasedModel(options);
        @Nullable Variable[][] variables =
                new @Nullable Variable[problem.fields().size()][problem.devices().size()];
        for (int field = 0; field < variables.length; field++) {
            Expression one = model.addExpression("one place of " + field).level(1);
            for (int device : problem.allowed(field)) {
                Variable variable = model.addVariable("field " + field + " on " + device).binary();
                variables[field][device] = variable;
                one.set(variable, 1);
            }
        }
        return new Model(model, variables);
    }

    private void addCosts(Model model) {
        double scale = 0;
        for (int field = 0; field < model.variables.length; field++) {
            for (int device : problem.allowed(field)) {
                scale = Math.max(scale, problem.choice(field, device).nanos() - cheapest(field));
            }
        }
        for (int field = 0; field < model.variables.length; field++) {
            for (int device : problem.allowed(field)) {
                double more = problem.choice(field, device).nanos() - cheapest(field);
                Objects.requireNonNull(model.variables[field][device])
                        .weight(scale == 0 ? 0 : more / scale);
            }
        }
    }

    private double cheapest(int field) {
        return problem.allowed(field).stream()
                .mapToDouble(device -> problem.choice(field, device).nanos())
                .min()
                .orElseThrow();
    }

    private void addCapacities(Model model, long[] slack) {
        for (int device = 0; device < slack.length; device++) {
            if (isLimited(device)) {
                addRoom(model, device, slack[device], false);
            }
        }
    }

    /// Says that a device has so many bytes less than its room, and no more; or that it is too
    /// full, and that the least of that is wanted.
    private void addRoom(Model model, int device, long slack, boolean isFull) {
        double room =
                (double) problem.devices().get(device).capacityBytes()
                        - slack
                        - problem.reservedBytes().get(device);
        double scale = Math.max(1, Math.abs(room));
        Expression bytes = model.model.addExpression("room of " + device);
        for (int field = 0; field < model.variables.length; field++) {
            for (int on : problem.allowed(field)) {
                long each = problem.choice(field, on).bytes().get(device);
                if (each > 0) {
                    bytes.set(Objects.requireNonNull(model.variables[field][on]), each / scale);
                }
            }
        }
        if (isFull) {
            bytes.lower(room / scale).weight(scale / largestRoom());
        } else {
            bytes.upper(room / scale);
        }
    }

    private double largestRoom() {
        return IntStream.range(0, problem.devices().size())
                .filter(this::isLimited)
                .mapToDouble(device -> problem.devices().get(device).capacityBytes())
                .reduce(1, Math::max);
    }

    /// Whether there are assignments that a device has no room for.
    private boolean isLimited(int device) {
        long most = problem.reservedBytes().get(device);
        for (int field = 0; field < problem.fields().size(); field++) {
            int each = field;
            most =
                    PlacementProblem.plus(
                            most,
                            problem.allowed(field).stream()
                                    .mapToLong(on -> problem.choice(each, on).bytes().get(device))
                                    .max()
                                    .orElse(0));
        }
        return most > problem.devices().get(device).capacityBytes();
    }

    private int[] assignment(Model model) {
        int[] assignment = new int[model.variables.length];
        for (int field = 0; field < assignment.length; field++) {
            double best = -1;
            for (int device : problem.allowed(field)) {
                double value =
                        Objects.requireNonNull(model.variables[field][device])
                                .getValue()
                                .doubleValue();
                if (value > best) {
                    best = value;
                    assignment[field] = device;
                }
            }
        }
        return assignment;
    }

    /// The least cost if fields could lie on several devices, a part on each.
    private double relaxedBound() {
        Model model = newModel(limit);
        addCosts(model);
        addCapacities(model, new long[problem.devices().size()]);
        model.model.relax(true);
        double least = 0;
        for (int field = 0; field < model.variables.length; field++) {
            least += cheapest(field);
        }
        Optimisation.Result result = model.model.minimise();
        if (!result.getState().isOptimal()) {
            return least;
        }
        List<Double> parts = new ArrayList<>();
        for (int field = 0; field < model.variables.length; field++) {
            for (int device : problem.allowed(field)) {
                double share =
                        Objects.requireNonNull(model.variables[field][device])
                                .getValue()
                                .doubleValue();
                parts.add(share * (problem.choice(field, device).nanos() - cheapest(field)));
            }
        }
        return least + parts.stream().mapToDouble(Double::doubleValue).sum();
    }
}
