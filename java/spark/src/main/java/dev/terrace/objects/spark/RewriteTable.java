package dev.terrace.objects.spark;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.AppendData;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Option;

/// A table as an [Optimization] has it: Spark appends to it what it reads from it, in the order
/// that the write asks for, and the write commits that instead of what was read.
final class RewriteTable implements SupportsRead, SupportsWrite {
    private final StructType schema;
    private final RewriteScan scan;
    private final RewriteWrite write;

    RewriteTable(
            ManifestLog log,
            PartStore store,
            Manifest before,
            TableOptions options,
            RewritePlan plan) {
        schema = TerraceTable.schema(before);
        scan = new RewriteScan(store, schema, plan);
        write = new RewriteWrite(log, store, before, options, plan);
    }

    /// Reads and writes.
    Optimization.Rewritten run(SparkSession spark) {
        AppendData command =
                AppendData.byPosition(
                        relation(this),
                        relation(this),
                        scala.collection.immutable.Map$.MODULE$.empty(),
                        false);
        Dataset.ofRows((org.apache.spark.sql.classic.SparkSession) spark, command);
        return write.result();
    }

    private static DataSourceV2Relation relation(Table table) {
        return DataSourceV2Relation.create(table, Option.empty(), Option.empty());
    }

    @Override
    public String name() {
        return write.description();
    }

    @Override
    public Column[] columns() {
        return TerraceTable.columns(schema);
    }

    @Override
    public Map<String, String> properties() {
        return Map.of();
    }

    @Override
    public Set<TableCapability> capabilities() {
        return Set.of(TableCapability.BATCH_READ, TableCapability.BATCH_WRITE);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return () -> scan;
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new WriteBuilder() {
            @Override
            public Write build() {
                return write;
            }
        };
    }
}
