package dev.terrace.objects.evaluation.report;

import dev.terrace.objects.evaluation.run.Spread;
import dev.terrace.objects.placement.Svg;
import java.util.List;
import java.util.Objects;

/// Draws a chart.
final class Plot {
    private static final int WIDTH = 900;
    private static final int HEIGHT = 360;
    private static final int LEFT = 70;
    private static final int RIGHT = 260;
    private static final int TOP = 40;
    private static final int BOTTOM = 40;
    private static final int FONT = 12;
    private static final int TITLE_FONT = 14;
    private static final int TICKS = 5;
    private static final double DOT = 3.5;

    /// The share of a group's width that its bars take.
    private static final double BARS = 0.8;

    private static final String GRID = "#dddddd";
    private static final String AXIS = "#333333";

    /// Told apart also by who sees colours otherwise (Okabe and Ito).
    private static final List<String> COLOURS =
            List.of(
                    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#999999",
                    "#f0e442");

    private final Chart chart;
    private final Svg svg = new Svg(WIDTH, HEIGHT);
    private final double step;
    private final double top;

    private Plot(Chart chart) {
        this.chart = chart;
        double most =
                chart.series().stream()
                        .flatMap(series -> series.values().stream())
                        .filter(Objects::nonNull)
                        .mapToDouble(Double::doubleValue)
                        .max()
                        .orElse(1);
        step = niceStep(most / TICKS);
        top = Math.max(step, Math.ceil(most / step) * step);
    }

    /// The chart as SVG.
    static String of(Chart chart) {
        Plot plot = new Plot(chart);
        plot.axes();
        plot.series();
        return plot.svg.toString();
    }

    /// The least of 1, 2, 5, 10, 20 ... and their fractions that is not less.
    private static double niceStep(double least) {
        double power = Math.pow(10, Math.floor(Math.log10(Math.max(least, Double.MIN_NORMAL))));
        double digits = least / power;
        return power * (digits <= 1 ? 1 : digits <= 2 ? 2 : digits <= 5 ? 5 : 10);
    }

    private void axes() {
        svg.text(LEFT, TOP - 20, "start", TITLE_FONT, chart.title() + ", " + chart.unit());
        for (int tick = 0; tick * step <= top * (1 + 1e-9); tick++) {
            svg.line(
                    LEFT,
                    y(tick * step),
                    WIDTH - RIGHT,
                    y(tick * step),
                    1,
                    tick == 0 ? AXIS : GRID);
            svg.text(LEFT - 6, y(tick * step) + 4, "end", FONT, Spread.number(tick * step));
        }
        for (int group = 0; group < chart.groups().size(); group++) {
            svg.text(
                    middle(group), HEIGHT - BOTTOM + 18, "middle", FONT, chart.groups().get(group));
        }
    }

    private void series() {
        for (int i = 0; i < chart.series().size(); i++) {
            Chart.Series one = chart.series().get(i);
            String colour = COLOURS.get(i % COLOURS.size());
            int y = TOP + i * 20;
            svg.cell(WIDTH - RIGHT + 14, y, 12, 12, colour, one.name());
            svg.text(WIDTH - RIGHT + 32, y + 11, "start", FONT, one.name());
            if (chart.isLines()) {
                line(one, colour);
            } else {
                bars(one, i, colour);
            }
        }
    }

    private void line(Chart.Series one, String colour) {
        int last = -1;
        for (int group = 0; group < one.values().size(); group++) {
            Double value = one.values().get(group);
            if (value != null) {
                svg.dot(middle(group), y(value), DOT, colour);
                if (last >= 0) {
                    svg.line(
                            middle(last),
                            y(Objects.requireNonNull(one.values().get(last))),
                            middle(group),
                            y(value),
                            2,
                            colour);
                }
                last = group;
            }
        }
    }

    private void bars(Chart.Series one, int index, String colour) {
        double width = groupWidth() * BARS / chart.series().size();
        for (int group = 0; group < one.values().size(); group++) {
            Double value = one.values().get(group);
            if (value != null) {
                double x = middle(group) - groupWidth() * BARS / 2 + index * width;
                svg.cell(
                        x,
                        y(value),
                        width * 0.94,
                        y(0) - y(value),
                        colour,
                        one.name() + ": " + Spread.number(value));
            }
        }
    }

    private double groupWidth() {
        return (double) (WIDTH - LEFT - RIGHT) / chart.groups().size();
    }

    private double middle(int group) {
        return LEFT + groupWidth() * (group + 0.5);
    }

    private double y(double value) {
        return HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
    }
}
