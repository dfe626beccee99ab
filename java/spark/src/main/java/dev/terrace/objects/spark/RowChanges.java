package dev.terrace.objects.spark;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/// A `DELETE`, `UPDATE` or `MERGE`: a scan that gives the ids of rows, and a write that is told
/// which rows to delete and which to add.
///
/// Spark is not asked to make two rows of an update, one to delete and one to add: nothing here
/// wants them sorted apart.
final class RowChanges implements SupportsDelta {
    private final TerraceTable table;
    private final MetadataColumn ids;
    private final Command command;

    /// The scans of the table that the statement has planned so far.
    private final List<TableScanBuilder> scans = new ArrayList<>();

    RowChanges(TerraceTable table, MetadataColumn ids, Command command) {
        this.table = table;
        this.ids = ids;
        this.command = command;
    }

    @Override
    public Command command() {
        return command;
    }

    @Override
    public String description() {
        return command + " of " + table.name();
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        TableScanBuilder scan = table.newScanBuilder(options).ofStatement();
        scans.add(scan);
        return scan;
    }

    @Override
    public NamedReference[] rowId() {
        return new NamedReference[] {Expressions.column(ids.name())};
    }

    @Override
    public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new DeltaWriteBuilder() {
            @Override
            public DeltaWrite build() {
                return table.newRowWrite(RowChanges.this);
            }
        };
    }

    /// Whether the statement may have read rows of a part.
    boolean mayRead(Part part) {
        return scans.stream().anyMatch(scan -> scan.mayNeed(part));
    }
}
