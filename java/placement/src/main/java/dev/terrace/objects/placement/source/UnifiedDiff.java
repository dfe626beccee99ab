package dev.terrace.objects.placement.source;

import java.util.ArrayList;
import java.util.List;

/// What has changed from a text to another, by lines.
final class UnifiedDiff {
    private static final int CONTEXT = 3;

    private final List<String> before;
    private final List<String> after;
    private final StringBuilder diff = new StringBuilder();

    /// Lines that are replaced.
    ///
    /// @param from the first in the text before
    /// @param to behind the last there
    /// @param newFrom the first in the text after
    /// @param newTo behind the last there
    private record Hunk(int from, int to, int newFrom, int newTo) {}

    private UnifiedDiff(String before, String after) {
        this.before = lines(before);
        this.after = lines(after);
    }

    static String of(String file, String before, String after) {
        UnifiedDiff diff = new UnifiedDiff(before, after);
        diff.diff.append("--- ").append(file).append("\n+++ ").append(file).append('\n');
        List<Hunk> hunks = diff.hunks();
        for (int i = 0; i < hunks.size(); ) {
            int next = i + 1;
            while (next < hunks.size() && hunks.get(next).from - hunks.get(next - 1).to <= 2 * CONTEXT) {
                next++;
            }
            diff.append(hunks.subList(i, next));
            i = next;
        }
        return diff.diff.toString();
    }

    /// Lines with what ends them.
    private static List<String> lines(String text) {
        List<String> lines = new ArrayList<>();
        for (int at = 0; at < text.length(); ) {
            int end = text.indexOf('\n', at) + 1;
            end = end == 0 ? text.length() : end;
            lines.add(text.substring(at, end));
            at = end;
        }
        return lines;
    }

    /// The replaced lines that the longest common subsequence leaves over.
    private List<Hunk> hunks() {
        int[][] common = common();
        List<Hunk> hunks = new ArrayList<>();
        int i = sameAtFront();
        int j = i;
        while (i < before.size() || j < after.size()) {
            int from = i;
            int newFrom = j;
            while ((i < before.size() || j < after.size()) && !isSame(i, j)) {
                if (j == after.size() || i < before.size() && at(common, i + 1, j) >= at(common, i, j + 1)) {
                    i++;
                } else {
                    j++;
                }
            }
            if (i > from || j > newFrom) {
                hunks.add(new Hunk(from, i, newFrom, j));
            }
            i++;
            j++;
        }
        return hunks;
    }

    private int sameAtFront() {
        int same = 0;
        while (isSame(same, same)) {
            same++;
        }
        return same;
    }

    /// By line of both, from the first that differs, how many lines are common to the rests. One row and column more than there are lines.
    private int[][] common() {
        int front = sameAtFront();
        int[][] common = new int[before.size() - front + 1][after.size() - front + 1];
        for (int i = before.size() - 1; i >= front; i--) {
            for (int j = after.size() - 1; j >= front; j--) {
                common[i - front][j - front] = isSame(i, j)
                        ? at(common, i + 1, j + 1) + 1
                        : Math.max(at(common, i + 1, j), at(common, i, j + 1));
            }
        }
        return common;
    }

    private int at(int[][] common, int i, int j) {
        // What both texts have at the front is left out.
        int front = before.size() + 1 - common.length;
        return common[i - front][j - front];
    }

    private boolean isSame(int i, int j) {
        return i < before.size() && j < after.size() && before.get(i).equals(after.get(j));
    }

    /// Appends hunks that share their context.
    private void append(List<Hunk> hunks) {
        Hunk first = hunks.getFirst();
        Hunk last = hunks.getLast();
        int above = Math.min(CONTEXT, first.from);
        int below = Math.min(CONTEXT, before.size() - last.to);
        diff.append("@@ -").append(range(first.from - above, last.to + below))
                .append(" +").append(range(first.newFrom - above, last.newTo + below)).append(" @@\n");
        append(' ', before.subList(first.from - above, first.from));
        for (int i = 0; i < hunks.size(); i++) {
            Hunk hunk = hunks.get(i);
            append('-', before.subList(hunk.from, hunk.to));
            append('+', after.subList(hunk.newFrom, hunk.newTo));
            append(' ', before.subList(hunk.to, i + 1 < hunks.size() ? hunks.get(i + 1).from : last.to + below));
        }
    }

    private static String range(int from, int to) {
        return (to > from ? from + 1 : from) + "," + (to - from);
    }

    private void append(char sign, List<String> lines) {
        for (String line : lines) {
            diff.append(sign).append(line);
            if (!line.endsWith("\n")) {
                diff.append("\n\\ No newline at end of file\n");
            }
        }
    }
}
