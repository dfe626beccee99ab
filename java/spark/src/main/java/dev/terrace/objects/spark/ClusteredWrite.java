package dev.terrace.objects.spark;

import java.util.List;
import java.util.stream.Stream;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;

/// A write whose tasks get the rows of few partitions each, one partition after the other, and
/// those of a partition in the table's order. So a task writes one part of each of its partitions.
interface ClusteredWrite extends RequiresDistributionAndOrdering {
    /// The table's columns.
    TableColumns columns();

    /// The table's options, and the write's.
    TableOptions options();

    /// Whether rows are written at all: a statement that only deletes rows has no columns to sort
    /// them by.
    default boolean addsRows() {
        return true;
    }

    @Override
    default Distribution requiredDistribution() {
        NamedReference[] partition = columns().partitionReferences();
        return partition.length == 0 || !addsRows()
                ? Distributions.unspecified()
                : Distributions.clustered(partition);
    }

    /// Several tasks may write one partition that has many rows.
    @Override
    default boolean distributionStrictlyRequired() {
        return false;
    }

    @Override
    default SortOrder[] requiredOrdering() {
        return addsRows()
                ? ordering(columns().partitioning(), options().sortBy(columns().schema()))
                : new SortOrder[0];
    }

    /// By the partition columns, and then by others.
    static SortOrder[] ordering(List<String> partitioning, List<String> sortBy) {
        return Stream.concat(partitioning.stream(), sortBy.stream())
                .distinct()
                .map(TableColumns::reference)
                .map(column -> Expressions.sort(column, SortDirection.ASCENDING))
                .toArray(SortOrder[]::new);
    }
}
