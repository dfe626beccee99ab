package dev.terrace.objects.evaluation.changes;

import java.util.Locale;

/// A statement that changes a hundredth of a table's rows, others in each pass.
enum Change {
    DELETE_CLUSTERED("DELETE, clustered") {
        @Override
        String statement(String table, long rows, int pass) {
            long count = rows / SHARE;
            return String.format(
                    Locale.ROOT,
                    "DELETE FROM %s WHERE id >= %d AND id < %d",
                    table,
                    pass * count,
                    (pass + 1) * count);
        }
    },
    DELETE_SCATTERED("DELETE, scattered") {
        @Override
        String statement(String table, long rows, int pass) {
            return String.format(
                    Locale.ROOT, "DELETE FROM %s WHERE id %% %d = %d", table, SHARE, pass);
        }
    },
    MERGE_CLUSTERED("MERGE, clustered") {
        @Override
        String statement(String table, long rows, int pass) {
            return merge(table, rows, "id + " + (rows / 2 + pass * (rows / SHARE)));
        }
    },
    MERGE_SCATTERED("MERGE, scattered") {
        @Override
        String statement(String table, long rows, int pass) {
            return merge(table, rows, "id * " + SHARE + " + " + (SHARE / 2 + pass));
        }
    };

    private static final int SHARE = 100;

    /// Its name in reports.
    final String title;

    Change(String title) {
        this.title = title;
    }

    /// The statement.
    ///
    /// @param rows that the table had at first
    abstract String statement(String table, long rows, int pass);

    private static String merge(String table, long rows, String key) {
        return String.format(
                Locale.ROOT,
                "MERGE INTO %s AS old USING (SELECT %s AS id, id * 0.5D AS amount FROM range(%d))"
                        + " AS new ON old.id = new.id WHEN MATCHED THEN UPDATE SET amount ="
                        + " new.amount",
                table,
                key,
                rows / SHARE);
    }
}
