package dev.terrace.objects.arrows;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// Files that are too long, and methods with too many parameters.
final class Sizes {
    /// Lines of a file without a reason to be longer.
    static final int LINES_MAX = 600;

    /// Parameters of a method or constructor. Records may have more components.
    static final int PARAMETERS_MAX = 6;

    /// What begins the reason, in the comment of the file's class.
    static final String REASON = "/// Longer than 600 lines: ";

    private static final Pattern DECLARATION =
            Pattern.compile(
                    "([\\w>\\]]+)\\s+(\\w+)\\s*"
                            + "\\(([^()]*+(?:\\([^()]*+\\)[^()]*+)*+)\\)\\s*+"
                            + "(?:throws[\\w\\s.,]++)?+[{;]");

    private static final Set<String> NO_TYPES =
            Set.of("new", "return", "throw", "else", "record", "yield", "assert", "case", "do");

    private Sizes() {}

    /// The file, if it is too long and gives no reason.
    static List<String> tooLong(Arrows.Source source) {
        List<String> lines = source.text().lines().toList();
        int top = 0;
        while (top < lines.size() && !lines.get(top).contains("{")) {
            top++;
        }
        boolean hasReason =
                lines.subList(0, top).stream()
                        .anyMatch(
                                line -> line.startsWith(REASON) && line.length() > REASON.length());
        return lines.size() <= LINES_MAX || hasReason
                ? List.of()
                : List.of(source.file() + ": " + lines.size() + " lines");
    }

    /// The methods and constructors of a file that have too many parameters.
    static List<String> tooMany(Arrows.Source source) {
        List<String> found = new ArrayList<>();
        String bare = Arrows.bare(source.text());
        Matcher declaration = DECLARATION.matcher(bare);
        while (declaration.find()) {
            int count = parameters(declaration.group(3));
            if (!NO_TYPES.contains(declaration.group(1)) && count > PARAMETERS_MAX) {
                long line = bare.substring(0, declaration.start(2)).lines().count();
                found.add(
                        source.file()
                                + ":"
                                + line
                                + ": "
                                + declaration.group(2)
                                + " has "
                                + count
                                + " parameters");
            }
        }
        return found;
    }

    private static int parameters(String list) {
        int depth = 0;
        int commas = 0;
        for (char c : list.toCharArray()) {
            if (c == '<' || c == '(') {
                depth++;
            } else if (c == '>' || c == ')') {
                depth--;
            } else if (c == ',' && depth == 0) {
                commas++;
            }
        }
        return list.isBlank() ? 0 : commas + 1;
    }
}
