package dev.terrace.objects.spark;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;

/// The past states of a directory. Each commit leaves a manifest. Parts of earlier manifests stay
/// for readers that have begun to read them.
public final class Snapshots {
    private Snapshots() {}

    /// The result of a vacuum.
    ///
    /// @param manifests of commits that others have come after
    /// @param parts to which none leads any more, or that were left by jobs that were killed
    public record Removed(int manifests, int parts) {}

    /// Removes all manifests but the last, parts, and files of deletions and lists, that only these
    /// manifests lead to, and remains of jobs whose driver was killed, if they are older than
    /// `age`. A job that reads or writes for longer than that may lose its parts.
    ///
    /// @param directory of a [DurableRDD] or a table
    /// @param age at least as long as the longest query or job takes
    /// @throws dev.terrace.objects.PoolDamagedException if a manifest is damaged: nothing has been
    ///   removed then
    /// @throws FileNotFoundException if there is no such directory
    /// @throws IOException if the directory cannot be read or written
    public static Removed vacuum(JavaSparkContext context, String directory, Duration age)
            throws IOException {
        Configuration configuration = context.hadoopConfiguration();
        return vacuum(
                new ManifestLog(directory, configuration), configuration, Instant.now().minus(age));
    }

    static Removed vacuum(ManifestLog log, Configuration configuration, Instant before)
            throws IOException {
        if (!log.root().exists()) {
            throw new FileNotFoundException(log.root() + " is not there: look at the path");
        }
        PartStore store = new PartStore(log.root(), PartitionOptions.defaults(), configuration);
        List<JobFiles> files = JobFiles.all(log.root());
        // All that a job writes, or has committed so far, is in one of these, if they are read in
        // this order.
        Set<String> unowned = store.names();
        for (JobFiles each : files) {
            unowned.addAll(each.namesBefore(before));
        }
        List<WriteJob> jobs = WriteJob.begunBefore(log, Instant.MAX, configuration);
        List<Long> numbers = log.numbers();

        Set<Long> old = oldManifests(log, numbers, before);
        ManifestLog.Contents kept =
                log.contents(numbers.stream().filter(number -> !old.contains(number)).toList());
        ManifestLog.Contents gone = log.contents(old);
        unowned.removeAll(gone.names());
        unowned.removeAll(kept.names());
        // Nobody begins to read a manifest whose parts are going.
        for (long number : old) {
            log.delete(number);
        }
        gone.names().removeAll(kept.names());
        gone.parts().keySet().retainAll(gone.names());
        for (Part part : gone.parts().values()) {
            store.delete(part);
        }
        for (JobFiles each : files) {
            each.delete(gone.names()::contains);
        }
        unowned.removeIf(
                name -> !WriteJob.isName(name) || jobs.stream().anyMatch(job -> job.hasMade(name)));
        int left = store.delete(store.before(unowned, before)::contains).size();
        for (JobFiles each : files) {
            each.delete(unowned::contains);
        }
        log.deleteUnfinished(before);
        for (WriteJob job : WriteJob.begunBefore(log, before, configuration)) {
            // It may have been committed since.
            left += job.clean(log.contents(log.numbers()).names());
        }
        OpenParts.letGoOfRemoved();
        return new Removed(old.size(), gone.parts().size() + left);
    }

    private static Set<Long> oldManifests(ManifestLog log, List<Long> numbers, Instant before)
            throws IOException {
        Set<Long> old = new LinkedHashSet<>();
        for (int i = 0; i + 1 < numbers.size(); i++) {
            // Until the next one came it was the last.
            if (log.committedAt(numbers.get(i + 1)).isBefore(before)) {
                old.add(numbers.get(i));
            }
        }
        return old;
    }

    /// Removes everything.
    static void drop(ManifestLog log, Configuration configuration) throws IOException {
        ManifestLog.Contents contents = log.contents(log.numbers());
        log.deleteAll();
        PartStore store = new PartStore(log.root(), PartitionOptions.defaults(), configuration);
        for (Part part : contents.parts().values()) {
            store.delete(part);
        }
        for (WriteJob job : WriteJob.begunBefore(log, Instant.MAX, configuration)) {
            job.clean(Set.of());
        }
        WriteJob.forget(log);
        store.deleteDirectory();
        for (JobFiles each : JobFiles.all(log.root())) {
            each.deleteAll();
        }
        OpenParts.letGoOfRemoved();
        log.root().deleteIfEmpty();
    }
}
