package dev.terrace.objects.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// A `DELETE` that the manifest decides: of each part all rows meet the condition, or none does. No
/// pool is opened, and what is committed is a manifest without the parts that go.
///
/// @param conditions all of which a row meets that is deleted
record WholeParts(List<BlockFilter> conditions) {
    /// The statement with this condition; null if blocks have no filter that means the same, or
    /// Spark cannot show it.
    static @Nullable WholeParts of(Predicate[] predicates, StructType schema) {
        List<BlockFilter> conditions = new ArrayList<>();
        for (Predicate predicate : predicates) {
            BlockFilter condition = BlockFilter.exactly(predicate, schema);
            if (condition == null || !TableScanBuilder.hasText(predicate)) {
                return null;
            }
            conditions.add(condition);
        }
        return new WholeParts(conditions);
    }

    /// Whether the statement deletes all rows of a part.
    boolean has(Part part) {
        TableScan.PartFacts facts = new TableScan.PartFacts(part);
        return conditions.stream().allMatch(condition -> condition.mustMatch(facts));
    }

    /// Whether the statement may delete rows of a part.
    boolean mayHave(Part part) {
        return TableScan.mayMatch(part, conditions);
    }

    /// Whether all parts go, or stay, as a whole.
    boolean decides(Manifest manifest) {
        return manifest.parts().stream().allMatch(part -> has(part) || !mayHave(part));
    }

    /// Whether a part goes.
    boolean changes(Manifest manifest) {
        return manifest.parts().stream().anyMatch(this::has);
    }

    /// The manifest after the present one, without the parts that go.
    ///
    /// @param before what the statement has read
    /// @param statement as a message names it
    /// @throws CommitConflictException if others have committed parts of which single rows would go
    Manifest without(@Nullable Manifest present, Manifest before, String statement)
            throws CommitConflictException {
        Manifest last = before.requireTable(present, statement);
        if (!decides(last)) {
            throw before.conflict(last, statement, Manifest.ADDED_ROWS);
        }
        return last.next(last.parts().stream().filter(part -> !has(part)).toList());
    }
}
