package dev.terrace.objects.tools;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/// Numbers and tables to be read.
final class Text {
    private Text() {}

    static String count(long count, String one) {
        return count(count, one, one + "s");
    }

    static String count(long count, String one, String many) {
        return count + " " + (count == 1 ? one : many);
    }

    static String bytes(long bytes) {
        String[] units = {"KiB", "MiB", "GiB", "TiB", "PiB"};
        if (bytes < 1 << 10) {
            return bytes + " B";
        }
        int unit = Math.min((63 - Long.numberOfLeadingZeros(bytes)) / 10, units.length);
        return String.format(
                Locale.ROOT, "%.1f %s", (double) bytes / (1L << 10 * unit), units[unit - 1]);
    }

    /// Room for so many bytes.
    static String room(long bytes) {
        return bytes == Long.MAX_VALUE ? "any" : bytes(bytes);
    }

    /// A time.
    static String nanos(double nanos) {
        String[] units = {"ns", "us", "ms", "s"};
        double value = nanos;
        int unit = 0;
        while (unit < units.length - 1 && Math.abs(value) >= 1000) {
            value /= 1000;
            unit++;
        }
        int decimals = value == 0 || Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
        return String.format(Locale.ROOT, "%." + decimals + "f %s", value, units[unit]);
    }

    /// Without characters that would do something to a terminal.
    static String oneLine(String text) {
        StringBuilder clean = new StringBuilder();
        text.chars()
                .forEach(character ->
                        clean.append(Character.isISOControl(character) ? '?' : (char) character));
        return clean.toString();
    }

    /// Columns of one width each: the first is text, the others are numbers.
    static final class Table {
        private final List<String[]> rows = new ArrayList<>();

        Table(String... names) {
            rows.add(names);
        }

        void row(String... cells) {
            rows.add(cells);
        }

        void print(PrintWriter out) {
            for (String[] row : rows) {
                StringBuilder line = new StringBuilder();
                for (int column = 0; column < row.length; column++) {
                    String blanks = " ".repeat(width(column) - row[column].length());
                    line.append(column == 0 ? row[column] + blanks : "  " + blanks + row[column]);
                }
                out.println(line);
            }
        }

        private int width(int column) {
            return rows.stream().mapToInt(row -> row[column].length()).max().orElse(0);
        }
    }
}
