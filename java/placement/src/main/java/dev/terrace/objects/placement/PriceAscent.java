package dev.terrace.objects.placement;

import java.util.Arrays;

/// Looks for prices with a high bound: room that too much is put into gets dearer, room that is
/// left gets cheaper. This is a subgradient method with the steps of Polyak, which goes back to the
/// best prices and makes shorter steps when it gains nothing.
final class PriceAscent {
    /// By how much the last assignment counts in the shares.
    private static final double LAST = 0.15;

    /// By how much the last direction counts in the next.
    private static final double MOMENTUM = 0.3;

    /// After so many steps that gain nothing, steps get shorter.
    private static final int PATIENCE = 4;

    /// The share of what is missing that a step has to gain.
    private static final double GAIN = 1e-6;

    private final PricedProblem priced;
    private final int[] open;
    private final double[] over;
    private final double[] direction;
    private final int[] assignment;

    /// By field and device, how often the field was there, late steps counting more: about the part
    /// of it that would be there if fields could be cut.
    private final double[][] shares;

    private double[] prices;
    private double[] best;
    private double bound = Double.NEGATIVE_INFINITY;
    private double length = 1;
    private int idle;

    /// @param open the devices that each field may lie on, one bit for each
    /// @param start the prices to start at
    PriceAscent(PricedProblem priced, int[] open, double[] start) {
        this.priced = priced;
        this.open = open;
        over = new double[start.length];
        direction = new double[start.length];
        assignment = new int[open.length];
        shares = new double[open.length][priced.problem().devices().size()];
        prices = start.clone();
        best = start.clone();
    }

    /// The best bound that was found.
    double bound() {
        return bound;
    }

    /// The prices of that bound.
    double[] prices() {
        return best;
    }

    /// Where the fields are cheapest with the prices of the last step.
    int[] assignment() {
        return assignment;
    }

    /// The largest part of a field that is on one device.
    double largestShare(int field) {
        return Arrays.stream(shares[field]).max().orElseThrow();
    }

    /// A step.
    ///
    /// @param target the value that the bound is to reach
    /// @return whether another one may find a higher bound
    boolean step(double target) {
        double found = priced.bound(open, prices, over, assignment);
        count(bound == Double.NEGATIVE_INFINITY ? 1 : LAST);
        if (found > bound) {
            idle = found - bound > GAIN * (target - found) ? 0 : idle + 1;
            bound = found;
            best = prices.clone();
        } else if (++idle > PATIENCE) {
            length /= 2;
            idle = 0;
            prices = best.clone();
            return true;
        }
        return bound < target && move(target - found);
    }

    private void count(double last) {
        for (int field = 0; field < shares.length; field++) {
            double[] of = shares[field];
            for (int device = 0; device < of.length; device++) {
                of[device] *= 1 - last;
            }
            of[assignment[field]] += last;
        }
    }

    private boolean move(double missing) {
        double square = 0;
        for (int i = 0; i < prices.length; i++) {
            double gain = (1 - MOMENTUM) * inRange(i, over[i] / priced.scale(i));
            direction[i] = inRange(i, gain + MOMENTUM * direction[i]);
            square += direction[i] * direction[i];
        }
        if (square == 0) {
            return false;
        }
        for (int i = 0; i < prices.length; i++) {
            double moved = prices[i] + length * missing / square * direction[i] / priced.scale(i);
            prices[i] = Math.clamp(moved, 0, priced.highestPrice());
        }
        return true;
    }

    /// A change of a price, or none if that is as low or as high as it may be.
    private double inRange(int i, double change) {
        boolean isAtEnd = change < 0 ? prices[i] <= 0 : prices[i] >= priced.highestPrice();
        return isAtEnd ? 0 : change;
    }
}
