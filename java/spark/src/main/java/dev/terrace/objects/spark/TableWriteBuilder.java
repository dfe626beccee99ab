package dev.terrace.objects.spark;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// Finds out what a write does with the rows that are there.
final class TableWriteBuilder implements SupportsTruncate {
    private final ManifestLog log;
    private final @Nullable Manifest before;
    private final StructType schema;
    private final TableOptions options;
    private final Configuration configuration;
    private boolean replaces;
    private @Nullable LogicalWriteInfo info;

    /// @param replaces whether what is there goes, even if the write does not say so
    TableWriteBuilder(
            ManifestLog log,
            @Nullable Manifest before,
            StructType schema,
            TableOptions options,
            boolean replaces,
            Configuration configuration) {
        this.log = log;
        this.before = before;
        this.schema = schema;
        this.options = options.requireColumns(schema);
        this.replaces = replaces;
        this.configuration = configuration;
    }

    /// Whatever the write is asked for, a batch or a stream, this is what Spark knows of it.
    TableWriteBuilder of(LogicalWriteInfo ofWrite) {
        info = ofWrite;
        return this;
    }

    @Override
    public TableWriteBuilder truncate() {
        replaces = true;
        return this;
    }

    @Override
    public TableWrite build() {
        PartStore store = new PartStore(log.root(), options.partitions(), configuration);
        return new TableWrite(log, store, before, schema, options, replaces).of(info);
    }
}
