package dev.terrace.objects.placement;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/// A picture of a surface over two logarithmic axes: colours say how high it is, lines part the
/// regions of different kinds, and each region is named.
///
/// @param title above all
/// @param across of the columns
/// @param up of the rows, the first at the bottom
/// @param measure what the colours say
/// @param names of the kinds
/// @param heights by row and column, as logarithms to base 10; 0 is the middle of the colours
/// @param kinds by row and column
/// @param marked a value of the axis that goes up where a dashed line is drawn, if it has that
record HeatMap(
        String title,
        Axis across,
        Axis up,
        String measure,
        List<String> names,
        double[][] heights,
        int[][] kinds,
        double marked) {
    private static final int LEFT = 90;
    private static final int TOP = 50;
    private static final int WIDTH = 560;
    private static final int HEIGHT = 400;
    private static final int[] COLD = {33, 102, 172};
    private static final int[] WARM = {178, 24, 43};

    /// @param name what it is of
    /// @param unit empty if it has none
    /// @param values positive, growing by the same factor
    record Axis(String name, String unit, List<Double> values) {
        /// Where a value is, from 0 to the number of values: its column or row with all that is in
        /// it.
        double at(double value) {
            double from = Math.log(values.getFirst());
            return (Math.log(value) - from)
                            / (Math.log(values.getLast()) - from)
                            * (values.size() - 1)
                    + 0.5;
        }

        /// The powers of ten in it.
        List<Double> ticks() {
            List<Double> ticks = new ArrayList<>();
            for (double tick = Math.pow(10, Math.ceil(Math.log10(values.getFirst()) - 1e-9));
                    tick <= values.getLast() * 1.0001;
                    tick *= 10) {
                ticks.add(tick);
            }
            return ticks;
        }
    }

    /// The picture, whole, without anything from elsewhere.
    String svg() {
        Svg svg = new Svg(LEFT + WIDTH + 120, TOP + HEIGHT + 70);
        svg.text(LEFT, 28, "start", 15, title);
        double highest = 1e-9;
        for (double[] row : heights) {
            for (double height : row) {
                highest = Math.max(highest, Math.abs(height));
            }
        }
        for (int row = 0; row < heights.length; row++) {
            for (int column = 0; column < heights[row].length; column++) {
                String label =
                        names.get(kinds[row][column])
                                + String.format(
                                        Locale.ROOT,
                                        "; %s %.3g %s, %s %.3g",
                                        across.name,
                                        across.values.get(column),
                                        across.unit,
                                        up.name,
                                        up.values.get(row));
                svg.cell(
                        x(column),
                        y(row + 1),
                        x(column + 1) - x(column),
                        y(row) - y(row + 1),
                        colour(heights[row][column] / highest),
                        label);
            }
        }
        borders(svg);
        labels(svg);
        if (marked >= up.values.getFirst() && marked <= up.values.getLast()) {
            svg.dashed(x(0), y(up.at(marked)), x(across.values.size()), y(up.at(marked)));
        }
        axes(svg);
        legend(svg, highest);
        return svg.toString();
    }

    private double x(double column) {
        return LEFT + column * WIDTH / across.values.size();
    }

    private double y(double row) {
        return TOP + HEIGHT - row * HEIGHT / up.values.size();
    }

    /// Blue below 0, red above, white between.
    private static String colour(double share) {
        int[] end = share < 0 ? COLD : WARM;
        double strength = Math.min(1, Math.abs(share));
        int[] mixed = new int[end.length];
        for (int i = 0; i < end.length; i++) {
            mixed[i] = (int) Math.round(255 + strength * (end[i] - 255));
        }
        return String.format(Locale.ROOT, "#%02x%02x%02x", mixed[0], mixed[1], mixed[2]);
    }

    private void borders(Svg svg) {
        for (int row = 0; row < kinds.length; row++) {
            for (int column = 0; column < kinds[row].length; column++) {
                if (column > 0 && kinds[row][column] != kinds[row][column - 1]) {
                    svg.line(x(column), y(row), x(column), y(row + 1), 2);
                }
                if (row > 0 && kinds[row][column] != kinds[row - 1][column]) {
                    svg.line(x(column), y(row), x(column + 1), y(row), 2);
                }
            }
        }
    }

    /// Each region's name at the mean of its cells.
    private void labels(Svg svg) {
        for (int kind = 0; kind < names.size(); kind++) {
            double sumX = 0;
            double sumY = 0;
            int count = 0;
            for (int row = 0; row < kinds.length; row++) {
                for (int column = 0; column < kinds[row].length; column++) {
                    if (kinds[row][column] == kind) {
                        sumX += x(column + 0.5);
                        sumY += y(row + 0.5);
                        count++;
                    }
                }
            }
            if (count > 0) {
                svg.text(sumX / count, sumY / count, "middle", 14, names.get(kind));
            }
        }
    }

    private void axes(Svg svg) {
        for (double tick : across.ticks()) {
            svg.line(x(across.at(tick)), y(0), x(across.at(tick)), y(0) + 5, 1);
            svg.text(x(across.at(tick)), y(0) + 20, "middle", 12, number(tick));
        }
        for (double tick : up.ticks()) {
            svg.line(x(0) - 5, y(up.at(tick)), x(0), y(up.at(tick)), 1);
            svg.text(x(0) - 9, y(up.at(tick)) + 4, "end", 12, number(tick));
        }
        svg.text(
                LEFT + WIDTH / 2.0,
                y(0) + 45,
                "middle",
                13,
                across.unit.isEmpty() ? across.name : across.name + " (" + across.unit + ")");
        svg.upright(25, TOP + HEIGHT / 2.0, 13, up.name);
    }

    private void legend(Svg svg, double highest) {
        int steps = 40;
        double left = LEFT + WIDTH + 20;
        for (int i = 0; i < steps; i++) {
            double height = HEIGHT / (double) steps;
            svg.cell(
                    left,
                    TOP + HEIGHT - (i + 1) * height,
                    16,
                    height,
                    colour(2.0 * i / (steps - 1) - 1),
                    "");
        }
        svg.text(left + 21, TOP + 10, "start", 12, "× " + number(Math.pow(10, highest)));
        svg.text(left + 21, TOP + HEIGHT / 2.0 + 4, "start", 12, "× 1");
        svg.text(left + 21, TOP + HEIGHT, "start", 12, "× " + number(Math.pow(10, -highest)));
        svg.upright(left + 85, TOP + HEIGHT / 2.0, 12, measure);
    }

    private static String number(double value) {
        return value >= 1e4 || value < 1e-3
                ? String.format(Locale.ROOT, "%.0e", value).replace("e+0", "e").replace("e-0", "e-")
                : String.format(
                                Locale.ROOT,
                                value >= 10 || value == Math.rint(value) ? "%.0f" : "%.3g",
                                value)
                        .replaceAll("(\\.[0-9]*?)0+$", "$1");
    }
}
