package dev.terrace.objects.evaluation.report;

import java.util.List;

/// A table, as it is read.
///
/// @param caption what it shows
/// @param columns what each column is
/// @param rows as many cells each
public record Table(String caption, List<String> columns, List<List<String>> rows) {
    /// Copies the lists, and checks that all rows have a cell for each column.
    public Table {
        columns = List.copyOf(columns);
        rows = rows.stream().map(List::copyOf).toList();
        for (List<String> row : rows) {
            if (row.size() != columns.size()) {
                throw new IllegalArgumentException(
                        caption + ": a row has " + row.size() + " cells, not " + columns.size());
            }
        }
    }
}
