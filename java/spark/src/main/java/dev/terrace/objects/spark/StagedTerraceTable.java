package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.jspecify.annotations.Nullable;

/// A table that is made, or made anew: the commit of its rows is that of the table, so nobody sees
/// it without them.
final class StagedTerraceTable implements StagedTable, SupportsWrite {
    private final String path;
    private final @Nullable Manifest before;
    private final TableColumns columns;
    private final Map<String, String> properties;
    private final Configuration configuration;
    private boolean hasRows;

    /// @param before what is there now; null: nothing
    StagedTerraceTable(
            String path,
            @Nullable Manifest before,
            TableColumns columns,
            Map<String, String> properties,
            Configuration configuration) {
        this.path = path;
        this.before = before;
        this.columns = columns;
        this.properties = properties;
        this.configuration = configuration;
    }

    @Override
    public String name() {
        return TerraceSource.NAME + ".`" + path + "`";
    }

    @Override
    public Column[] columns() {
        return TerraceTable.columns(columns.schema());
    }

    @Override
    public Transform[] partitioning() {
        return columns.transforms();
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.BATCH_WRITE, TableCapability.TRUNCATE);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        hasRows = true;
        return builder(info.options());
    }

    private TableWriteBuilder builder(Map<String, String> options) {
        try {
            TableOptions all =
                    TableOptions.of(TableOptions.of(Map.of(), properties).values(), options);
            return new TableWriteBuilder(
                    new ManifestLog(path, configuration),
                    before,
                    columns.partitionedBy(new CaseInsensitiveStringMap(options)),
                    all,
                    new Replacement.Everything(),
                    configuration);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void commitStagedChanges() {
        if (!hasRows) {
            builder(Map.of()).build().commit(List.of());
        }
    }

    @Override
    public void abortStagedChanges() {
        // The write has removed what it wrote.
    }
}
