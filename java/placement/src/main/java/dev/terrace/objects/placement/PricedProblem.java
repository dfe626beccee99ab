package dev.terrace.objects.placement;

import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.ToDoubleFunction;
import java.util.stream.IntStream;

/// A problem in which room has a price for each byte, in place of a limit. Then each field by
/// itself lies where it is cheapest, and whatever the prices are, all of them together cost no more
/// than the best of those that fit: that is a bound which no rounding of a solver can make wrong.
///
/// What is to be the least is either the cost, counted from the cheapest device of each field, or,
/// if not all fit, the number of bytes that are too many.
final class PricedProblem {
    /// The largest relative error of a number that is rounded once.
    private static final double ROUNDING = 0x1p-53;

    private final PlacementProblem problem;
    private final boolean isOfCosts;

    /// The devices that not everything fits on; no other has a price.
    private final int[] limited;

    private final double[] rooms;

    /// By field and device.
    private final double[][] costs;

    /// By field, device and number of the limited device.
    private final double[][][] bytes;

    private PricedProblem(PlacementProblem problem, boolean isOfCosts) {
        this.problem = problem;
        this.isOfCosts = isOfCosts;
        int devices = problem.devices().size();
        limited = IntStream.range(0, devices).filter(on -> isLimited(problem, on)).toArray();
        rooms =
                Arrays.stream(limited)
                        .mapToDouble(on ->
                                problem.devices().get(on).capacityBytes()
                                        - problem.reservedBytes().get(on))
                        .toArray();
        costs = new double[problem.fields().size()][devices];
        bytes = new double[costs.length][devices][];
        for (int field = 0; field < costs.length; field++) {
            double least = isOfCosts ? cheapest(problem, field) : 0;
            for (int device = 0; device < devices; device++) {
                Choice choice = problem.choice(field, device);
                costs[field][device] = isOfCosts ? choice.nanos() - least : 0;
                bytes[field][device] =
                        Arrays.stream(limited).mapToDouble(on -> choice.bytes().get(on)).toArray();
            }
        }
    }

    /// Wanted is the assignment that costs least, of those that fit.
    static PricedProblem ofCosts(PlacementProblem problem) {
        return new PricedProblem(problem, true);
    }

    /// Wanted is the assignment in which the fewest bytes are too many, of all devices together.
    static PricedProblem ofOverflow(PlacementProblem problem) {
        return new PricedProblem(problem, false);
    }

    private static double cheapest(PlacementProblem problem, int field) {
        return problem.allowed(field).stream()
                .mapToDouble(device -> problem.choice(field, device).nanos())
                .min()
                .orElseThrow();
    }

    /// Whether there are assignments that a device has no room for.
    private static boolean isLimited(PlacementProblem problem, int device) {
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

    int fields() {
        return costs.length;
    }

    /// Prices to start at, one for each device that has one. What is not full is free; where all
    /// are too full, all have the highest price.
    double[] firstPrices() {
        double[] prices = new double[rooms.length];
        Arrays.fill(prices, isOfCosts ? 0 : highestPrice());
        return prices;
    }

    /// A number of bytes that is about as large as the room of a device.
    double scale(int price) {
        return Math.max(1, Math.abs(rooms[price]));
    }

    /// A byte too many counts as one, so its price is no higher. Where all have to fit, none is too
    /// high.
    double highestPrice() {
        return isOfCosts ? Double.POSITIVE_INFINITY : 1;
    }

    PlacementProblem problem() {
        return problem;
    }

    /// All devices that each field may lie on, one bit for each.
    int[] choices() {
        int[] choices = new int[fields()];
        for (int field = 0; field < choices.length; field++) {
            for (int device : problem.allowed(field)) {
                choices[field] |= 1 << device;
            }
        }
        return choices;
    }

    /// Of each field the last one before it whose choices are all the same; -1 if there is none.
    /// Two such fields may change places, and nothing is better or worse.
    int[] twins() {
        Map<List<Choice>, Integer> last = new HashMap<>();
        int[] twins = new int[fields()];
        for (int field = 0; field < twins.length; field++) {
            Integer twin = last.put(problem.fields().get(field).choices(), field);
            twins[field] = twin == null ? -1 : twin;
        }
        return twins;
    }

    /// What an assignment costs, or by how much it is too large, in whole bytes; infinite if it has
    /// to fit and does not.
    double value(int[] assignment) {
        double over = Arrays.stream(problem.overflow(assignment)).asDoubleStream().sum();
        if (!isOfCosts) {
            return over;
        }
        double sum = 0;
        for (int field = 0; field < assignment.length; field++) {
            sum += costs[field][assignment[field]];
        }
        return over > 0 ? Double.POSITIVE_INFINITY : sum;
    }

    /// More than the value of any assignment that counts.
    double worst() {
        double sum = 1;
        for (int field = 0; field < fields(); field++) {
            sum += highest(problem.allowed(field), costs[field]);
        }
        if (!isOfCosts) {
            for (int price = 0; price < rooms.length; price++) {
                sum += Math.max(0, -rooms[price]);
                for (int field = 0; field < fields(); field++) {
                    int each = price;
                    double[][] of = bytes[field];
                    sum += highest(problem.allowed(field), device -> of[device][each]);
                }
            }
        }
        return sum * (1 + 1e-9);
    }

    private static double highest(List<Integer> devices, double[] of) {
        return highest(devices, device -> of[device]);
    }

    private static double highest(List<Integer> devices, ToDoubleFunction<Integer> of) {
        return devices.stream().mapToDouble(of).max().orElse(0);
    }

    /// From which value on an assignment is not worth looking for if there is one of this value: of
    /// bytes, there are whole ones; of costs, twelve digits count.
    double enough(double value) {
        return value - Math.max(isOfCosts ? 0 : 0.5, value * 1e-12);
    }

    /// The cost of a field on a device, the bytes that it takes included.
    double priced(int field, int device, double[] prices) {
        double sum = costs[field][device];
        double[] taken = bytes[field][device];
        for (int price = 0; price < prices.length; price++) {
            sum += prices[price] * taken[price];
        }
        return sum;
    }

    /// Puts each field where it is cheapest with these prices.
    ///
    /// @param open the devices that each field may lie on, one bit for each and at least one
    /// @param over filled with the bytes that each device takes beyond its room; negative if there
    ///   is room left
    /// @param assignment filled with where each field lies then
    /// @return a bound: no assignment has a smaller value
    double bound(int[] open, double[] prices, double[] over, int[] assignment) {
        double sum = 0;
        double size = 0;
        for (int price = 0; price < prices.length; price++) {
            sum -= prices[price] * rooms[price];
            size += Math.abs(prices[price] * rooms[price]);
            over[price] = -rooms[price];
        }
        for (int field = 0; field < open.length; field++) {
            double least = Double.POSITIVE_INFINITY;
            for (int left = open[field]; left != 0; left &= left - 1) {
                int device = Integer.numberOfTrailingZeros(left);
                double each = priced(field, device, prices);
                if (each < least) {
                    least = each;
                    assignment[field] = device;
                }
            }
            sum += least;
            size += least;
            double[] taken = bytes[field][assignment[field]];
            for (int price = 0; price < prices.length; price++) {
                over[price] += taken[price];
            }
        }
        return sum - size * ROUNDING * (open.length + 3 * prices.length + 3);
    }

    /// By how much the bytes that devices of these could take differ, at these prices.
    double spread(int field, int open, double[] prices) {
        double sum = 0;
        for (int price = 0; price < prices.length; price++) {
            double least = Double.POSITIVE_INFINITY;
            double most = 0;
            for (int left = open; left != 0; left &= left - 1) {
                double taken = bytes[field][Integer.numberOfTrailingZeros(left)][price];
                least = Math.min(least, taken);
                most = Math.max(most, taken);
            }
            sum += prices[price] * (most - least);
        }
        return sum;
    }
}
