package dev.terrace.objects.placement;

import java.util.Locale;

/// A picture that is being drawn, from left and top in pixels. For this project's own plots.
public final class Svg {
    private final StringBuilder parts = new StringBuilder();

    /// An empty one, in white.
    public Svg(int width, int height) {
        add(
                "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0"
                        + " %d %d\" font-family=\"sans-serif\">%n",
                width, height, width, height);
        add("<rect width=\"%d\" height=\"%d\" fill=\"white\"/>%n", width, height);
    }

    private void add(String format, Object... values) {
        parts.append(String.format(Locale.ROOT, format.replace("%n", "\n"), values));
    }

    /// A coloured rectangle, that says what it is when pointed at. It is a little larger than it
    /// should be, so that no seams show.
    public void cell(double x, double y, double width, double height, String colour, String label) {
        add(
                "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"%s\">",
                x, y, width + 0.3, height + 0.3, colour);
        add("<title>%s</title></rect>%n", escaped(label));
    }

    /// A black line.
    void line(double x1, double y1, double x2, double y2, int width) {
        line(x1, y1, x2, y2, width, "black");
    }

    /// A line.
    public void line(double x1, double y1, double x2, double y2, int width, String colour) {
        add(
                "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"%s\""
                        + " stroke-width=\"%d\" stroke-linecap=\"square\"/>%n",
                x1, y1, x2, y2, colour, width);
    }

    /// A dot.
    public void dot(double x, double y, double radius, String colour) {
        add("<circle cx=\"%.2f\" cy=\"%.2f\" r=\"%.2f\" fill=\"%s\"/>%n", x, y, radius, colour);
    }

    /// A black line, dashed.
    void dashed(double x1, double y1, double x2, double y2) {
        add(
                "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" stroke=\"black\""
                        + " stroke-dasharray=\"6 4\"/>%n",
                x1, y1, x2, y2);
    }

    /// Words.
    ///
    /// @param anchor `start`, `middle` or `end`: which part of them is at `x`
    public void text(double x, double y, String anchor, int size, String words) {
        add(
                "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\" font-size=\"%d\">%s</text>%n",
                x, y, anchor, size, escaped(words));
    }

    /// Words that go up, with their middle here.
    void upright(double x, double y, int size, String words) {
        add(
                "<text transform=\"translate(%.2f %.2f) rotate(-90)\" text-anchor=\"middle\""
                        + " font-size=\"%d\">%s</text>%n",
                x, y, size, escaped(words));
    }

    private static String escaped(String text) {
        return text.replace("&", "&amp;")
                .replace("<", "&lt;")
                .replace(">", "&gt;")
                .replace("\"", "&quot;");
    }

    @Override
    public String toString() {
        return parts + "</svg>\n";
    }
}
