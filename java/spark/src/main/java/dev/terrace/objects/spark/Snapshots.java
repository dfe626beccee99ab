package dev.terrace.objects.spark;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;

/// What is kept of a directory's past. Each commit leaves a manifest, and what it does not lead to any more stays for who has begun to read it.
public final class Snapshots {
    private Snapshots() {}

    /// What a vacuum has removed.
    ///
    /// @param manifests of commits that others have come after
    /// @param parts to which none leads any more, or that were left by jobs that were killed
    public record Removed(int manifests, int parts) {}

    /// Removes manifests but the last, parts that only those led to, and what jobs have left whose driver was killed: all as far as it is older than `age`.
    /// Who reads or writes for longer than that may find that its parts have gone.
    ///
    /// @param directory of a [DurableRDD] or a table
    /// @param age at least as long as the longest query or job takes
    /// @throws dev.terrace.objects.PoolDamagedException if a manifest is damaged: nothing has been removed then
    /// @throws IOException if the directory cannot be read or written
    public static Removed vacuum(JavaSparkContext context, String directory, Duration age) throws IOException {
        Configuration configuration = context.hadoopConfiguration();
        return vacuum(new ManifestLog(directory, configuration), configuration, Instant.now().minus(age));
    }

    private static Removed vacuum(ManifestLog log, Configuration configuration, Instant before) throws IOException {
        List<Long> old = oldManifests(log, before);
        Map<String, Part> parts = new TreeMap<>();
        Set<String> kept = new HashSet<>();
        for (long number : log.numbers()) {
            for (Part part : log.at(number).parts()) {
                parts.put(part.name(), part);
                if (!old.contains(number)) {
                    kept.add(part.name());
                }
            }
        }
        // Nobody begins to read a manifest whose parts are going.
        for (long number : old) {
            log.delete(number);
        }
        parts.keySet().removeAll(kept);
        PartStore store = new PartStore(log.root(), PartitionOptions.defaults(), configuration);
        for (Part part : parts.values()) {
            store.delete(part);
        }
        int orphans = 0;
        for (WriteJob job : WriteJob.begunBefore(log, before, configuration)) {
            orphans += job.clean(kept);
        }
        return new Removed(old.size(), parts.size() + orphans);
    }

    private static List<Long> oldManifests(ManifestLog log, Instant before) throws IOException {
        List<Long> numbers = log.numbers();
        List<Long> old = new ArrayList<>();
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
        Map<String, Part> parts = new TreeMap<>();
        for (long number : log.numbers()) {
            log.at(number).parts().forEach(part -> parts.put(part.name(), part));
        }
        log.deleteAll();
        PartStore store = new PartStore(log.root(), PartitionOptions.defaults(), configuration);
        for (Part part : parts.values()) {
            store.delete(part);
        }
        WriteJob.forget(log);
        store.deleteDirectory();
        log.root().deleteIfEmpty();
    }
}
