package dev.terrace.objects.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import org.jspecify.annotations.Nullable;

/// Which rows of a table go when those of a write come.
sealed interface Replacement {
    /// None.
    record Nothing() implements Replacement {}

    /// All of them.
    record Everything() implements Replacement {}

    /// Those of some parts, as a function of the parts that were written.
    sealed interface Parts extends Replacement {
        /// Which parts of the table go.
        Predicate<Part> gone(List<Part> written, Manifest present);

        /// The manifest after the present one, with parts instead of some.
        ///
        /// @param before what was there when the write began
        /// @param statement as a message names it
        /// @return null: it is the same
        /// @throws CommitConflictException if others have changed what goes, or have added to it
        default @Nullable Manifest replaced(
                List<Part> written, Manifest before, @Nullable Manifest present, String statement)
                throws CommitConflictException {
            Manifest last = before.requireTable(present, statement);
            Predicate<Part> gone = gone(written, last);
            Set<PartState> read = PartState.of(before, gone);
            Set<PartState> now = PartState.of(last, gone);
            if (!now.containsAll(read)) {
                throw before.conflict(last, statement, "changed or removed rows that it replaces");
            }
            if (!read.containsAll(now)) {
                throw before.conflict(last, statement, "added rows to what it replaces");
            }
            if (written.isEmpty() && read.isEmpty()) {
                return null;
            }
            List<Part> parts = new ArrayList<>(last.parts());
            parts.removeIf(gone);
            parts.addAll(written);
            return last.next(parts);
        }
    }

    /// Those that meet a condition.
    record Where(WholeParts condition) implements Parts {
        @Override
        public Predicate<Part> gone(List<Part> written, Manifest present) {
            return condition::mayHave;
        }
    }

    /// Those of partitions of which rows were written. A table without partitions is one.
    record Partitions() implements Parts {
        @Override
        public Predicate<Part> gone(List<Part> written, Manifest present) {
            TableColumns columns = TableColumns.of(present);
            Set<PartitionKey> partitions =
                    written.stream().map(columns::partitionOf).collect(Collectors.toSet());
            return part -> partitions.contains(columns.partitionOf(part));
        }
    }
}
