package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.Serial;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.metric.CustomMetric;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.colstats.ColumnStatistics;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;

/// The part of a table that a query reads: some columns of the blocks, in those parts that may have
/// matching rows.
///
/// Conditions that Spark finds only while the query runs, such as the keys of a table that it
/// joins, come last: from then on, partitions and readers are those for all conditions.
final class TableScan implements Scan, Batch, SupportsReportStatistics, SupportsRuntimeV2Filtering {
    /// Each walks over all blocks of a part.
    private static final int SHARES_MAX = 1000;

    /// Characters of a query's conditions that its plan shows: `IN` may have any number of values.
    private static final int CONDITIONS_MAX = 1000;

    private final String name;
    private final PartStore store;
    private final TableColumns table;
    private final StructType schema;
    private final StructType wanted;
    private final int[] columns;
    private final List<BlockFilter> filters = new ArrayList<>();
    private final long limit;
    private final long splitBytes;

    private final Manifest manifest;

    /// By their numbers in the manifest.
    private final SortedMap<Integer, Part> parts = new TreeMap<>();

    /// Of the query that asked for the scan.
    private Map<String, String> options = Map.of();

    private boolean isOfStatement;

    TableScan(
            String name,
            Manifest manifest,
            PartStore store,
            StructType wanted,
            List<BlockFilter> filters,
            long limit,
            long splitBytes) {
        this.name = name;
        this.store = store;
        this.wanted = wanted;
        this.filters.addAll(filters);
        this.limit = limit;
        this.splitBytes = splitBytes;
        this.manifest = manifest;
        table = TableColumns.of(manifest);
        schema = table.schema();
        columns = BlockReader.numbers(wanted, schema);
        find(manifest.parts());
    }

    /// The scan of a query with these options: it may be a batch or a stream.
    TableScan of(Map<String, String> ofQuery) {
        options = ofQuery;
        return this;
    }

    /// The scan of a statement that changes rows.
    TableScan ofStatement() {
        isOfStatement = true;
        return this;
    }

    /// Whether a statement changes rows that this finds.
    boolean isOfStatement() {
        return isOfStatement;
    }

    /// Conditions that all rows meet which are read, as far as they are known by now.
    List<BlockFilter> filters() {
        return filters;
    }

    /// The table's name.
    String name() {
        return name;
    }

    /// What a task reads of a part: all of it, or some of its blocks.
    ///
    /// @param number of the part in the manifest
    /// @param share of the part's blocks, from 0
    /// @param shares how many there are: block *n* is in share *n* modulo that
    /// @param columnBytes of the columns that are read, in all of the part
    record PartInput(Part part, int number, int share, int shares, long columnBytes)
            implements Serializable {
        @Serial private static final long serialVersionUID = 1L;

        /// Of the columns that are read.
        long bytes() {
            return columnBytes / shares;
        }

        /// About how many rows the share has.
        long rows() {
            return part.live() / shares;
        }
    }

    /// The manifest's facts about a part's columns.
    record PartFacts(Part part) implements BlockFilter.Facts {
        @Override
        public long rows() {
            return part.rows();
        }

        @Override
        public long nulls(int column) {
            return part.columns().get(column).nulls();
        }

        @Override
        public byte[] min(int column) {
            return part.columns().get(column).min();
        }

        @Override
        public byte[] max(int column) {
            return part.columns().get(column).max();
        }
    }

    /// Finds the parts that the query needs.
    private void find(List<Part> all) {
        long rows = 0;
        for (int i = 0; i < all.size(); i++) {
            // Without a condition, so many rows are enough.
            if (rows < limit && mayMatch(all.get(i), filters)) {
                parts.put(i, all.get(i));
                rows += all.get(i).live();
            }
        }
    }

    /// None of a table that is small enough to be broadcast. Of a join's tables Spark filters only
    /// the first that can be, by the keys of the other, and that one must be the one it broadcasts.
    ///
    /// None of a table whose rows a statement changes, either: Spark would read all keys of the
    /// table to find those that match. [KeyFilters] have others.
    @Override
    public NamedReference[] filterAttributes() {
        return isOfStatement || neededBytes() <= SQLConf.get().autoBroadcastJoinThreshold()
                ? new NamedReference[0]
                : filterColumns().stream()
                        .map(TableColumns::reference)
                        .toArray(NamedReference[]::new);
    }

    /// Partition columns, by which parts are left out, and columns of numbers, by which rows are:
    /// of others it would take long to look whether a value is one of many.
    List<String> filterColumns() {
        return IntStream.range(0, columns.length)
                .filter(i -> columns[i] != BlockReader.ID)
                .mapToObj(i -> schema.fields()[columns[i]])
                .filter(field ->
                        table.partitioning().contains(field.name())
                                || ColumnSummary.isExact(field.dataType()))
                .map(StructField::name)
                .toList();
    }

    @Override
    public void filter(Predicate[] predicates) {
        for (Predicate predicate : predicates) {
            BlockFilter filter = BlockFilter.of(predicate, schema);
            if (filter != null) {
                filters.add(filter);
            }
        }
        parts.values().removeIf(part -> !mayMatch(part, filters));
    }

    /// Whether rows of a part may meet all these conditions, by what the manifest knows.
    static boolean mayMatch(Part part, List<BlockFilter> conditions) {
        PartFacts facts = new PartFacts(part);
        return conditions.stream().allMatch(condition -> condition.mayMatch(facts));
    }

    @Override
    public StructType readSchema() {
        return wanted;
    }

    @Override
    public String description() {
        return name
                + " "
                + wanted.catalogString()
                + ", "
                + parts.size()
                + " parts"
                + (filters.isEmpty() ? "" : ", blocks where " + conditions());
    }

    private String conditions() {
        List<String> columns = List.of(schema.fieldNames());
        String all =
                filters.stream()
                        .map(filter -> filter.words(columns))
                        .collect(Collectors.joining(" and "));
        return all.length() > CONDITIONS_MAX ? all.substring(0, CONDITIONS_MAX) + "..." : all;
    }

    @Override
    public Batch toBatch() {
        TableOptions.requireKnown(options);
        return this;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
        StreamOptions ofStream = StreamOptions.of(options);
        if (!filters.isEmpty() || limit != Long.MAX_VALUE) {
            // They were looked at with this manifest, and batches read others.
            throw new IllegalStateException(
                    "a stream of "
                            + name
                            + " gives all rows: a filter or a limit of it is Spark's to evaluate");
        }
        try {
            TableCommits commits =
                    new TableCommits(store.manifests(), name, manifest, ofStream.skipsChanges());
            return new TableStream(this, commits, ofStream);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public ColumnarSupportMode columnarSupportMode() {
        return ColumnarSupportMode.SUPPORTED;
    }

    @Override
    public InputPartition[] planInputPartitions() {
        List<PartInput> inputs = new ArrayList<>();
        parts.forEach((number, part) -> inputs.addAll(inputs(number, part)));
        return tasks(inputs);
    }

    /// The partitions of a query that reads these.
    InputPartition[] tasks(List<PartInput> inputs) {
        return PartsInput.of(inputs, splitBytes).toArray(new InputPartition[0]);
    }

    /// What tasks read of a part, which has this number in its manifest.
    List<PartInput> inputs(int number, Part part) {
        long bytes = bytes(part);
        int shares = (int) Math.min(SHARES_MAX, Math.max(1, Math.ceilDiv(bytes, splitBytes)));
        return IntStream.range(0, shares)
                .mapToObj(
                        share -> new PartInput(part.withoutColumns(), number, share, shares, bytes))
                .toList();
    }

    /// Bytes of the columns that are read.
    private long bytes(Part part) {
        return Arrays.stream(columns).mapToLong(column -> bytesOfColumn(part, column)).sum();
    }

    private static long bytesOfColumn(Part part, int column) {
        return column == BlockReader.ID
                ? part.live() * Long.BYTES
                : part.columns().get(column).bytes();
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return readers(wanted, open(), limit);
    }

    private PartitionReaderFactory readers(
            StructType ofColumns, List<BlockFilter> ofRows, long ofPart) {
        return new PartsReader.Factory(
                new BlockReader.Factory(store, schema, ofColumns, ofRows, ofPart));
    }

    /// Conditions that some rows of the parts may not meet, as far as the manifest shows: those of
    /// partition columns have left out parts, and need not be looked at again.
    private List<BlockFilter> open() {
        List<PartFacts> facts = parts.values().stream().map(PartFacts::new).toList();
        return filters.stream()
                .filter(filter -> !facts.stream().allMatch(filter::mustMatch))
                .toList();
    }

    /// The readers of a stream. Spark does not say which columns a stream needs: all are there, and
    /// behind them the ids of rows, and each is read when a value of it is first asked for.
    PartitionReaderFactory createStreamReaderFactory() {
        StructType all = wanted.add(RowIds.column(schema).name(), DataTypes.LongType);
        return readers(all, List.of(), Long.MAX_VALUE);
    }

    @Override
    public CustomMetric[] supportedCustomMetrics() {
        return new CustomMetric[] {new BlockMetrics.Read(), new BlockMetrics.Skipped()};
    }

    @Override
    public Statistics estimateStatistics() {
        Collection<Part> all = parts.values();
        long rows = all.stream().mapToLong(Part::live).sum();
        Map<NamedReference, ColumnStatistics> ofColumns = new HashMap<>();
        for (int i = 0; i < columns.length; i++) {
            int column = columns[i];
            long columnBytes = all.stream().mapToLong(part -> bytesOfColumn(part, column)).sum();
            if (column != BlockReader.ID) {
                long nulls =
                        all.stream().mapToLong(part -> part.columns().get(column).nulls()).sum();
                ofColumns.put(
                        TableColumns.reference(wanted.fieldNames()[i]),
                        new ColumnFigures(
                                // Some of them may be of rows that are deleted.
                                Math.min(nulls, rows),
                                rows == 0 ? 0 : columnBytes / rows,
                                bound(column, true),
                                bound(column, false)));
            }
        }
        return new TableFigures(OptionalLong.of(neededBytes()), OptionalLong.of(rows), ofColumns);
    }

    /// An estimate of the bytes that the query gets, in a packed form: Spark compares it with
    /// limits that are made for files like Parquet's, and broadcasts what is below one of them. It
    /// takes nothing off for its filters unless its cost-based optimizer is on, which goes by rows:
    /// so of these, nothing is taken off here.
    private long neededBytes() {
        Selectivity selectivity = new Selectivity(schema, filters);
        int[] exact =
                Arrays.stream(columns)
                        .filter(column ->
                                column != BlockReader.ID
                                        && ColumnSummary.isExact(
                                                schema.fields()[column].dataType()))
                        .toArray();
        return parts.values().stream()
                .mapToLong(part -> (long) (selectivity.of(part) * packedBytes(part, exact)))
                .sum();
    }

    private long packedBytes(Part part, int[] exact) {
        long saved = 0;
        for (int column : exact) {
            ColumnSummary summary = part.columns().get(column);
            saved += summary.bytes() - summary.packedBytes(part.live());
        }
        return bytes(part) - saved;
    }

    /// A bound as Spark has values of the column's type, if that is a whole number, a date or a
    /// time.
    private Optional<Object> bound(int column, boolean isLeast) {
        DataType type = schema.fields()[column].dataType();
        Long bound =
                ColumnSummary.isExact(type)
                        ? ColumnSummary.bound(parts.values(), column, isLeast)
                        : null;
        if (bound == null) {
            return Optional.empty();
        }
        return switch (type) {
            case ByteType _ -> Optional.of(bound.byteValue());
            case ShortType _ -> Optional.of(bound.shortValue());
            case IntegerType _, DateType _ -> Optional.of(bound.intValue());
            case LongType _, TimestampType _, TimestampNTZType _ -> Optional.of(bound);
            default -> Optional.empty();
        };
    }

    /// Statistics of the rows that are read.
    private record TableFigures(
            OptionalLong sizeInBytes,
            OptionalLong numRows,
            Map<NamedReference, ColumnStatistics> columnStats)
            implements Statistics {}

    /// Statistics of a column.
    private record ColumnFigures(
            long nulls, long meanBytes, Optional<Object> min, Optional<Object> max)
            implements ColumnStatistics {
        @Override
        public OptionalLong nullCount() {
            return OptionalLong.of(nulls);
        }

        @Override
        public OptionalLong avgLen() {
            return OptionalLong.of(meanBytes);
        }
    }
}
