package dev.terrace.objects.evaluation.report;

import java.util.Collections;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/// A page in Markdown.
final class Markdown {
    private static final int COLUMNS = 120;

    /// Code has its spaces within.
    private static final Pattern WORD = Pattern.compile("(?:`[^`]*`|[^\\s`])+");

    private final StringBuilder text = new StringBuilder();

    void heading(int level, String heading) {
        text.append("#".repeat(level)).append(' ').append(heading).append("\n\n");
    }

    void paragraph(String paragraph) {
        int column = 0;
        Matcher words = WORD.matcher(paragraph);
        while (words.find()) {
            if (column > 0) {
                boolean fits = column + 1 + words.group().length() <= COLUMNS;
                text.append(fits ? ' ' : '\n');
                column = fits ? column + 1 : 0;
            }
            text.append(words.group());
            column += words.group().length();
        }
        text.append("\n\n");
    }

    void picture(String title, String file) {
        text.append("![").append(title).append("](").append(file).append(")\n\n");
    }

    /// A table below its caption.
    void table(Table table) {
        paragraph(table.caption() + ":");
        row(table.columns());
        row(Collections.nCopies(table.columns().size(), "---"));
        table.rows().forEach(this::row);
        text.append('\n');
    }

    private void row(List<String> cells) {
        text.append('|');
        for (String cell : cells) {
            text.append(' ').append(cell.replace("|", "\\|")).append(" |");
        }
        text.append('\n');
    }

    /// The page, without empty lines at its end.
    @Override
    public String toString() {
        return text.toString().stripTrailing() + "\n";
    }
}
