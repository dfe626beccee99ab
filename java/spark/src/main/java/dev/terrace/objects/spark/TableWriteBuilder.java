package dev.terrace.objects.spark;

import java.util.Objects;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.jspecify.annotations.Nullable;

/// Finds out what a write does with the rows that are there.
final class TableWriteBuilder implements SupportsOverwriteV2, SupportsDynamicOverwrite {
    private final ManifestLog log;
    private final @Nullable Manifest before;
    private final TableColumns columns;
    private final TableOptions options;
    private final Configuration configuration;
    private Replacement replacement;
    private @Nullable LogicalWriteInfo info;

    /// @param replacement what goes, if the write does not say so
    TableWriteBuilder(
            ManifestLog log,
            @Nullable Manifest before,
            TableColumns columns,
            TableOptions options,
            Replacement replacement,
            Configuration configuration) {
        this.log = log;
        this.before = before;
        this.columns = columns;
        this.options = options.requireColumns(columns.schema());
        this.replacement = replacement;
        this.configuration = configuration;
    }

    /// Whatever the write is asked for, a batch or a stream, this is what Spark knows of it.
    TableWriteBuilder of(LogicalWriteInfo ofWrite) {
        info = ofWrite;
        return this;
    }

    /// Spark knows `partitionOverwriteMode` as an option of files, and leaves that to formats.
    @Override
    public TableWriteBuilder truncate() {
        boolean isDynamic = info != null && TableOptions.isDynamic(info.options());
        replacement = isDynamic ? new Replacement.Partitions() : new Replacement.Everything();
        return this;
    }

    /// Whether all rows that meet a condition are in parts without others, as they are in
    /// partitions.
    @Override
    public boolean canOverwrite(Predicate[] predicates) {
        WholeParts parts = WholeParts.of(predicates, columns.schema());
        return parts != null && (before == null || parts.decides(before));
    }

    @Override
    public TableWriteBuilder overwrite(Predicate[] predicates) {
        replacement =
                new Replacement.Where(
                        Objects.requireNonNull(WholeParts.of(predicates, columns.schema())));
        return this;
    }

    @Override
    public TableWriteBuilder overwriteDynamicPartitions() {
        replacement = new Replacement.Partitions();
        return this;
    }

    @Override
    public TableWrite build() {
        PartStore store = new PartStore(log.root(), options.partitions(), configuration);
        return new TableWrite(log, store, before, columns, options, replacement).of(info);
    }
}
