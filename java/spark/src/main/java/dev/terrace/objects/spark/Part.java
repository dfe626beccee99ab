package dev.terrace.objects.spark;

import com.esotericsoftware.kryo.DefaultSerializer;
import com.esotericsoftware.kryo.serializers.JavaSerializer;
import com.fasterxml.jackson.annotation.JsonInclude;
import java.io.Serial;
import java.io.Serializable;
import java.util.List;
import org.jspecify.annotations.Nullable;

/// A pool that one task has written, as the manifest names it. Tasks send it to the driver, by Kryo
/// if Spark's configuration says so, which knows no records: so it is told to leave this one, and
/// the messages of writers, to Java's own serialization.
///
/// @param name of its directory: the job that wrote it, the partition, the attempt
/// @param pmem directory that the pool's directory is in; null: `parts` beside the manifests
/// @param disk directory that the directory of its disk's file is in; null: the pool's own
/// @param hosts names of the node that wrote it
/// @param rows objects, or rows of a table, those that are deleted included
/// @param bytes in use in the pool, on all tiers
/// @param columns what is known of each column of a table, its deleted rows included; empty for
///   objects
/// @param deletions rows of a table that are deleted; null: none is
@DefaultSerializer(JavaSerializer.class)
record Part(
        String name,
        @Nullable String pmem,
        @Nullable String disk,
        List<String> hosts,
        long rows,
        long bytes,
        List<ColumnSummary> columns,
        @JsonInclude(JsonInclude.Include.NON_NULL) @Nullable Deletions deletions)
        implements Serializable {
    @Serial private static final long serialVersionUID = 1L;

    Part {
        hosts = List.copyOf(hosts);
        columns = List.copyOf(columns);
    }

    /// A part as it was written.
    Part(
            String name,
            @Nullable String pmem,
            @Nullable String disk,
            List<String> hosts,
            long rows,
            long bytes,
            List<ColumnSummary> columns) {
        this(name, pmem, disk, hosts, rows, bytes, columns, null);
    }

    /// How many rows are not deleted.
    long live() {
        return deletions == null ? rows : rows - deletions.rows();
    }

    /// The part with these rows deleted.
    Part with(@Nullable Deletions all) {
        return new Part(name, pmem, disk, hosts, rows, bytes, columns, all);
    }

    /// The part, of whose columns this is known.
    Part withColumns(List<ColumnSummary> known) {
        return new Part(name, pmem, disk, hosts, rows, bytes, known, deletions);
    }

    /// The part without what is known of its columns, which may be long: who opens it needs none of
    /// that.
    Part withoutColumns() {
        return withColumns(List.of());
    }
}
