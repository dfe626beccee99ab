package dev.terrace.objects.evaluation.report;

import java.util.List;
import java.util.Locale;

/// A picture of lines, areas and texts, on white. Places are in pixels from the upper left corner.
final class Svg {
    private static final String FONT = "font-family=\"sans-serif\"";

    private final StringBuilder elements = new StringBuilder();
    private final int width;
    private final int height;

    /// An empty one.
    Svg(int width, int height) {
        this.width = width;
        this.height = height;
        rectangle(0, 0, width, height, "#ffffff");
    }

    /// Where a text has the place that it is given.
    enum Anchor {
        START, MIDDLE, END
    }

    /// An area.
    Svg rectangle(double x, double y, double wide, double high, String fill) {
        return add("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\"/>", x, y, wide, high, fill);
    }

    /// A thin line.
    Svg line(double x1, double y1, double x2, double y2, String stroke) {
        return add("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\"/>", x1, y1, x2, y2, stroke);
    }

    /// A line over several points, each marked; each is x and y.
    Svg path(List<double[]> points, String stroke) {
        StringBuilder all = new StringBuilder();
        for (double[] point : points) {
            all.append(String.format(Locale.ROOT, "%.1f,%.1f ", point[0], point[1]));
            add("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>", point[0], point[1], stroke);
        }
        return add("<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>", all.toString().strip(), stroke);
    }

    /// A text on one line.
    Svg text(double x, double y, Anchor anchor, int size, String text) {
        return add("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" font-size=\"%d\" " + FONT + ">%s</text>",
                x, y, anchor.name().toLowerCase(Locale.ROOT), size, escaped(text));
    }

    private Svg add(String format, Object... values) {
        elements.append(String.format(Locale.ROOT, format, values)).append('\n');
        return this;
    }

    private static String escaped(String text) {
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;");
    }

    /// The file's text.
    @Override
    public String toString() {
        return String.format(
                        Locale.ROOT,
                        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">%n",
                        width, height, width, height)
                + elements + "</svg>\n";
    }
}
