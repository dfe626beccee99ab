package dev.terrace.objects.spark;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;

/// Writes parts of a table anew, so that it has few parts that are well filled, and no room of
/// deleted rows. The table has the same rows as before.
///
/// @param targetBytes how many bytes a part is to have
/// @param minFill a part is written anew that has less than this fraction of them, if others can be
///   joined with it
/// @param maxDeleted a part is written anew if more than this fraction of its rows is deleted
/// @param sortBy columns by whose values the rows are sorted that are written anew; empty: by none
/// @param all whether each part is written anew
public record Optimization(
        long targetBytes, double minFill, double maxDeleted, List<String> sortBy, boolean all) {
    private static final long TARGET_BYTES = 128 << 20;
    private static final double MIN_FILL = 0.75;
    private static final double MAX_DELETED = 0.2;
    private static final Optimization DEFAULTS =
            new Optimization(TARGET_BYTES, MIN_FILL, MAX_DELETED, List.of(), false);

    /// Checks the numbers.
    public Optimization {
        if (targetBytes < 1) {
            throw new IllegalArgumentException(
                    "target_bytes: a part has 1 byte at least, not " + targetBytes);
        }
        requireFraction("min_fill", minFill);
        requireFraction("max_deleted", maxDeleted);
        sortBy = List.copyOf(sortBy);
    }

    private static void requireFraction(String name, double value) {
        if (!(value >= 0 && value <= 1)) {
            throw new IllegalArgumentException(
                    name + ": a fraction is a number from 0 to 1, not " + value);
        }
    }

    /// The result of an optimization.
    ///
    /// @param partsBefore how many parts were written anew
    /// @param bytesBefore bytes in use in them
    /// @param partsAfter how many parts have their rows now
    /// @param bytesAfter bytes in use in those
    /// @param partsLeft how many parts stay as they are because somebody else changed them, or
    ///   others that were to be joined with them, meanwhile
    public record Rewritten(
            int partsBefore, long bytesBefore, int partsAfter, long bytesAfter, int partsLeft) {
        private Rewritten plus(Rewritten other) {
            return new Rewritten(
                    partsBefore + other.partsBefore,
                    bytesBefore + other.bytesBefore,
                    partsAfter + other.partsAfter,
                    bytesAfter + other.bytesAfter,
                    partsLeft + other.partsLeft);
        }
    }

    /// Parts of 128 MiB; of those that are there the ones that fill less than three quarters of
    /// that, or of which more than a fifth is deleted; rows are not sorted.
    public static Optimization defaults() {
        return DEFAULTS;
    }

    /// The same, with parts of so many bytes.
    public Optimization targetBytes(long bytes) {
        return new Optimization(bytes, minFill, maxDeleted, sortBy, all);
    }

    /// The same, of parts that fill less than this fraction of the target.
    public Optimization minFill(double fraction) {
        return new Optimization(targetBytes, fraction, maxDeleted, sortBy, all);
    }

    /// The same, of parts of which more than this fraction is deleted.
    public Optimization maxDeleted(double fraction) {
        return new Optimization(targetBytes, minFill, fraction, sortBy, all);
    }

    /// The same, with rows sorted by the values of these columns.
    public Optimization sortedBy(String... columns) {
        return new Optimization(targetBytes, minFill, maxDeleted, List.of(columns), all);
    }

    /// The same, of all parts.
    public Optimization ofAllParts() {
        return new Optimization(targetBytes, minFill, maxDeleted, sortBy, true);
    }

    /// Does it. Appends of others stay, and so do parts that others change meanwhile.
    ///
    /// @param directory of the table
    /// @return zeros if there was nothing to do: nothing is committed then
    /// @throws CommitConflictException if others have changed all that was written anew, or if rows
    ///   are sorted, some of it: nothing has changed then
    /// @throws java.io.FileNotFoundException if there is no table
    /// @throws IllegalArgumentException if the table has no such column, or is none
    /// @throws IOException if the directory cannot be read or written
    public Rewritten run(SparkSession spark, String directory) throws IOException {
        Configuration configuration = spark.sparkContext().hadoopConfiguration();
        ManifestLog log = new ManifestLog(directory, configuration);
        Manifest before = log.require(Manifest.TABLE);
        List<RewritePlan> writes = RewritePlan.of(before, this).writes();
        TableOptions options = TableOptions.of(before.options(), Map.of());
        PartStore store = new PartStore(log.root(), options.partitions(), configuration);
        Rewritten all = new Rewritten(0, 0, 0, 0, 0);
        CommitConflictException conflict = null;
        for (RewritePlan plan : writes) {
            try {
                all = all.plus(run(spark, new RewriteTable(log, store, before, options, plan)));
            } catch (CommitConflictException e) {
                conflict = e;
                all = all.plus(new Rewritten(0, 0, 0, 0, plan.partsBefore()));
            }
        }
        if (conflict != null && all.partsBefore == 0) {
            throw conflict;
        }
        return all;
    }

    private static Rewritten run(SparkSession spark, RewriteTable table) throws IOException {
        try {
            return table.run(spark);
        } catch (UncheckedIOException e) {
            throw e.getCause();
        }
    }
}
