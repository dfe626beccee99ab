package dev.terrace.objects.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;
import org.jspecify.annotations.Nullable;

/// Finds out how little of a table a query needs: columns, blocks, rows, or only what the manifest
/// knows.
final class TableScanBuilder
        implements ScanBuilder,
                SupportsPushDownRequiredColumns,
                SupportsPushDownV2Filters,
                SupportsPushDownLimit,
                SupportsPushDownAggregates {
    private final String name;
    private final Manifest manifest;
    private final PartStore store;
    private final long splitBytes;
    private final StructType schema;
    private StructType wanted;
    private final List<Predicate> pushed = new ArrayList<>();
    private final List<BlockFilter> filters = new ArrayList<>();

    /// Whether all rows meet them of the parts that are needed.
    private boolean areFiltersMet = true;

    /// A table may have more rows than an int counts.
    private long limit = Long.MAX_VALUE;

    private @Nullable AggregateScan aggregates;
    private Map<String, String> options = Map.of();
    private boolean isOfStatement;
    private @Nullable TableScan scan;

    TableScanBuilder(String name, Manifest manifest, PartStore store, long splitBytes) {
        this.name = name;
        this.manifest = manifest;
        this.store = store;
        this.splitBytes = splitBytes;
        schema = TerraceTable.schema(manifest);
        wanted = schema;
    }

    /// The builder of a scan for a query with these options.
    TableScanBuilder of(Map<String, String> ofQuery) {
        options = ofQuery;
        return this;
    }

    /// The builder of a scan for a statement that changes rows.
    TableScanBuilder ofStatement() {
        isOfStatement = true;
        return this;
    }

    @Override
    public void pruneColumns(StructType required) {
        wanted = required;
    }

    /// Those that all rows of the parts meet which may have rows for them need not be evaluated: as
    /// those of partition columns. All others remain Spark's: here they only say which parts and
    /// blocks have none of their rows.
    @Override
    public Predicate[] pushPredicates(Predicate[] predicates) {
        for (Predicate predicate : predicates) {
            BlockFilter filter = BlockFilter.of(predicate, schema);
            if (filter != null) {
                filters.add(filter);
                if (hasText(predicate)) {
                    pushed.add(predicate);
                }
            }
        }
        List<Part> needed = needed();
        Predicate[] others =
                Arrays.stream(predicates)
                        .filter(predicate -> !isMet(predicate, needed))
                        .toArray(Predicate[]::new);
        areFiltersMet = others.length == 0;
        return others;
    }

    private List<Part> needed() {
        return manifest.parts().stream().filter(part -> TableScan.mayMatch(part, filters)).toList();
    }

    private boolean isMet(Predicate predicate, List<Part> parts) {
        BlockFilter exact = BlockFilter.exactly(predicate, schema);
        return exact != null
                && parts.stream().allMatch(part -> exact.mustMatch(new TableScan.PartFacts(part)));
    }

    /// Whether Spark can show a predicate in a plan: some literals that are null have no text.
    static boolean hasText(Expression expression) {
        boolean isNull = expression instanceof Literal<?> literal && literal.value() == null;
        return !isNull && Arrays.stream(expression.children()).allMatch(TableScanBuilder::hasText);
    }

    /// Whether rows of a part may be among those that the query needs, as far as it is known by
    /// now.
    boolean mayNeed(Part part) {
        return TableScan.mayMatch(part, scan == null ? filters : scan.filters());
    }

    @Override
    public Predicate[] pushedPredicates() {
        return pushed.toArray(new Predicate[0]);
    }

    /// Asked only if no predicate remains. Each partition ends after so many rows.
    @Override
    public boolean pushLimit(int rows) {
        limit = rows;
        return true;
    }

    @Override
    public boolean isPartiallyPushed() {
        return true;
    }

    @Override
    public boolean supportCompletePushDown(Aggregation aggregation) {
        return aggregates(aggregation) != null;
    }

    /// Asked for of batches only.
    @Override
    public boolean pushAggregation(Aggregation aggregation) {
        TableOptions.requireKnown(options);
        aggregates = aggregates(aggregation);
        return aggregates != null;
    }

    private @Nullable AggregateScan aggregates(Aggregation aggregation) {
        return areFiltersMet
                ? AggregateScan.of(name, aggregation, manifest.next(needed()), schema)
                : null;
    }

    @Override
    public Scan build() {
        if (aggregates != null) {
            return aggregates;
        }
        scan = new TableScan(name, manifest, store, wanted, filters, limit, splitBytes).of(options);
        return isOfStatement ? scan.ofStatement() : scan;
    }
}
