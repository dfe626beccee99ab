package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsAtomicPartitionManagement;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.jspecify.annotations.Nullable;

/// A table as of one commit, or one that is not there yet, which takes any rows.
final class TerraceTable
        implements SupportsRead,
                SupportsWrite,
                SupportsMetadataColumns,
                SupportsRowLevelOperations,
                SupportsDeleteV2,
                SupportsAtomicPartitionManagement {
    private final String path;
    private final @Nullable Manifest manifest;
    private final boolean isFixed;
    private final Configuration configuration;

    /// Names of options that each query of the table is to have.
    private Set<String> required = Set.of();

    private TerraceTable(
            String path,
            @Nullable Manifest manifest,
            boolean isFixed,
            Configuration configuration) {
        this.path = path;
        this.manifest = manifest;
        this.isFixed = isFixed;
        this.configuration = configuration;
    }

    /// This table, which Spark has asked for with these options. A stream that reads gives them
    /// again. The queries of a catalog's entry do not, and would not follow them.
    TerraceTable requiring(Set<String> options) {
        required = Set.copyOf(options);
        return this;
    }

    private void requireFollowed(Map<String, String> options) {
        for (String name : required) {
            if (!options.containsKey(name)) {
                throw TerraceSource.withoutEffect(name);
            }
        }
    }

    /// A table as it is now.
    static TerraceTable current(
            String path, @Nullable Manifest manifest, Configuration configuration) {
        return new TerraceTable(path, manifest, false, configuration);
    }

    /// A version of a table, of which no statement changes rows: its reader has not seen what was
    /// committed since.
    static TerraceTable fixed(String path, Manifest manifest, Configuration configuration) {
        return new TerraceTable(path, manifest, true, configuration);
    }

    /// Whether nothing was ever committed.
    boolean isAbsent() {
        return manifest == null;
    }

    /// The schema that a manifest has.
    static StructType schema(Manifest manifest) {
        return (StructType) DataType.fromJson(manifest.type());
    }

    @Override
    public String name() {
        return TerraceSource.NAME + ".`" + path + "`";
    }

    /// What messages of Spark show.
    @Override
    public String toString() {
        return name();
    }

    @Override
    public Column[] columns() {
        return manifest == null ? new Column[0] : columns(schema(manifest));
    }

    /// A schema's columns.
    static Column[] columns(StructType schema) {
        StructField[] fields = schema.fields();
        Column[] columns = new Column[fields.length];
        for (int i = 0; i < columns.length; i++) {
            String comment = fields[i].getComment().getOrElse(() -> null);
            columns[i] =
                    Column.create(
                            fields[i].name(),
                            fields[i].dataType(),
                            fields[i].nullable(),
                            comment,
                            null);
        }
        return columns;
    }

    @Override
    public Transform[] partitioning() {
        return manifest == null ? new Transform[0] : TableColumns.of(manifest).transforms();
    }

    @Override
    public Map<String, String> properties() {
        return manifest == null ? Map.of() : manifest.options();
    }

    @Override
    public String version() {
        return Long.toString(Manifest.number(manifest));
    }

    @Override
    public Set<TableCapability> capabilities() {
        return manifest == null
                ? Set.of(
                        TableCapability.BATCH_WRITE,
                        TableCapability.STREAMING_WRITE,
                        TableCapability.TRUNCATE,
                        TableCapability.ACCEPT_ANY_SCHEMA)
                : Set.of(
                        TableCapability.BATCH_READ,
                        TableCapability.MICRO_BATCH_READ,
                        TableCapability.BATCH_WRITE,
                        TableCapability.STREAMING_WRITE,
                        TableCapability.TRUNCATE,
                        TableCapability.OVERWRITE_BY_FILTER,
                        TableCapability.OVERWRITE_DYNAMIC);
    }

    @Override
    public MetadataColumn[] metadataColumns() {
        return manifest == null
                ? new MetadataColumn[0]
                : new MetadataColumn[] {RowIds.column(schema(manifest))};
    }

    private Manifest require() {
        if (manifest == null) {
            throw new IllegalStateException(
                    name() + " is not there yet: write to it first, or name another");
        }
        return manifest;
    }

    /// The manifest that a statement has read which changes rows.
    private Manifest requireChangeable() {
        Manifest read = require();
        requireFollowed(Map.of());
        if (isFixed) {
            throw new IllegalArgumentException(
                    "this is version "
                            + read.number()
                            + " of "
                            + name()
                            + ", whose rows stay as they are: name the table itself to change"
                            + " them");
        }
        return read;
    }

    @Override
    public TableScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        requireFollowed(options);
        TableOptions all =
                TableOptions.of(require().options(), TableOptions.withoutStreamReads(options));
        return new TableScanBuilder(name(), require(), store(all), all.splitBytes()).of(options);
    }

    private PartStore store(TableOptions options) {
        return new PartStore(log().root(), options.partitions(), configuration);
    }

    private ManifestLog log() {
        try {
            return new ManifestLog(path, configuration);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /// Spark keeps a stream's table for as long as the query runs, and asks it for a write of each
    /// epoch. The epoch writes to the table as it is then: others may have made it anew, with other
    /// options.
    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        requireFollowed(info.options());
        return TableOptions.areOfStream(info.options())
                ? TerraceCatalog.table(path).writeBuilder(info)
                : writeBuilder(info);
    }

    private WriteBuilder writeBuilder(LogicalWriteInfo info) {
        return new TableWriteBuilder(
                        log(),
                        manifest,
                        columns(info),
                        TableOptions.of(properties(), TableOptions.withoutStreams(info.options())),
                        new Replacement.Nothing(),
                        configuration)
                .of(info);
    }

    private TableColumns columns(LogicalWriteInfo info) {
        return manifest == null
                ? new TableColumns(TableSchema.of(info.schema()), List.of())
                        .partitionedBy(info.options())
                : TableColumns.of(manifest).requirePartitions(info.options());
    }

    @Override
    public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
        Manifest read = requireChangeable();
        KeyFilters.addTo(SparkSession.active());
        return () -> new RowChanges(this, RowIds.column(schema(read)), info.command());
    }

    /// The write of a statement that has read this table.
    RowWrite newRowWrite(RowChanges changes) {
        TableOptions options = TableOptions.of(properties(), Map.of());
        return new RowWrite(changes, log(), store(options), require(), options);
    }

    /// Whether a `DELETE` needs no scan; a `TRUNCATE` is one without a condition.
    @Override
    public boolean canDeleteWhere(Predicate[] predicates) {
        Manifest read = requireChangeable();
        WholeParts parts = WholeParts.of(predicates, schema(read));
        return parts != null && parts.decides(read);
    }

    @Override
    public void deleteWhere(Predicate[] predicates) {
        Manifest before = requireChangeable();
        WholeParts parts = Objects.requireNonNull(WholeParts.of(predicates, schema(before)));
        if (parts.changes(before)) {
            commit(present -> parts.without(present, before, "DELETE of " + name()));
        }
    }

    private void commit(WriteJob.Change change) {
        try {
            WriteJob.begin(log(), store(TableOptions.of(properties(), Map.of()))).commit(change);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public StructType partitionSchema() {
        return manifest == null ? new StructType() : TableColumns.of(manifest).partitionSchema();
    }

    private Set<PartitionKey> partitions(Manifest of) {
        return of.parts().stream()
                .map(TableColumns.of(of)::partitionOf)
                .collect(Collectors.toSet());
    }

    @Override
    public InternalRow[] listPartitionIdentifiers(String[] names, InternalRow values) {
        StructType all = partitionSchema();
        StructType some = new StructType();
        int[] columns = new int[names.length];
        for (int i = 0; i < names.length; i++) {
            columns[i] = all.fieldIndex(names[i]);
            some = some.add(all.apply(columns[i]));
        }
        PartitionKey wanted = PartitionKey.of(values, some);
        return partitions(require()).stream()
                .filter(partition -> partition.agrees(wanted, columns))
                .map(partition -> partition.values(all))
                .toArray(InternalRow[]::new);
    }

    /// Removes all parts of partitions, also those that others have added meanwhile.
    @Override
    public boolean dropPartitions(InternalRow[] values) {
        Manifest before = requireChangeable();
        StructType columns = partitionSchema();
        Set<PartitionKey> dropped =
                Stream.of(values)
                        .map(each -> PartitionKey.of(each, columns))
                        .collect(Collectors.toSet());
        commit(present -> {
            Manifest last = before.requireTable(present, "DROP PARTITION of " + name());
            TableColumns of = TableColumns.of(last);
            return last.next(
                    last.parts().stream()
                            .filter(part -> !dropped.contains(of.partitionOf(part)))
                            .toList());
        });
        return true;
    }

    /// A partition without rows is none.
    @Override
    public boolean truncatePartition(InternalRow values) {
        return dropPartition(values);
    }

    @Override
    public boolean truncatePartitions(InternalRow[] values) {
        return dropPartitions(values);
    }

    @Override
    public void createPartitions(InternalRow[] values, Map<String, String>[] properties) {
        throw new UnsupportedOperationException(
                "a partition is there as long as it has rows: insert some instead");
    }

    @Override
    public Map<String, String> loadPartitionMetadata(InternalRow values) {
        return Map.of();
    }

    @Override
    public void replacePartitionMetadata(InternalRow values, Map<String, String> properties) {
        throw new UnsupportedOperationException("partitions have no properties: set the table's");
    }
}
