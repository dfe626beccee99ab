package dev.terrace.objects.placement.source;

import java.util.Comparator;
import java.util.List;

/// Characters of a text that are replaced.
///
/// @param from the first of them
/// @param to behind the last; `from` if none is
/// @param text what comes there
record Edit(int from, int to, String text) {
    /// The text with all these made, which do not overlap; of those at one place, the first comes
    /// first.
    static String apply(String text, List<Edit> edits) {
        StringBuilder changed = new StringBuilder();
        int at = 0;
        for (Edit edit : edits.stream().sorted(Comparator.comparingInt(Edit::from)).toList()) {
            changed.append(text, at, edit.from).append(edit.text);
            at = edit.to;
        }
        return changed.append(text, at, text.length()).toString();
    }
}
