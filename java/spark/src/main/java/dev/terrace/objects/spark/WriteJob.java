package dev.terrace.objects.spark;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.stream.Collectors;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.jspecify.annotations.Nullable;

/// A job that writes parts, as its driver sees it: each attempt of a task makes parts of its own, and the driver commits those of the attempts that
/// counted. So nothing is there twice, however often a task was tried.
///
/// From when it begins until all that does not count has been removed, a file says where it writes, for a vacuum after a driver that was killed.
final class WriteJob {
    private static final String JOBS = "jobs";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String id;
    private final ManifestLog log;
    private final PartStore store;

    private WriteJob(String id, ManifestLog log, PartStore store) {
        this.id = id;
        this.log = log;
        this.store = store;
    }

    /// Begins a job.
    static WriteJob begin(ManifestLog log, PartStore store) throws IOException {
        WriteJob job = new WriteJob(UUID.randomUUID().toString(), log, store);
        Storage jobs = log.root().child(JOBS);
        try (OutputStream out = jobs.files().create(new Path(jobs.directory(), job.id), false)) {
            out.write(JSON.writeValueAsBytes(store.options()));
        }
        return job;
    }

    /// Jobs of a directory that began before then, and have not ended as they should.
    static List<WriteJob> begunBefore(ManifestLog log, Instant then, Configuration configuration) throws IOException {
        Storage jobs = log.root().child(JOBS);
        List<WriteJob> begun = new ArrayList<>();
        for (FileStatus file : jobs.filesBefore(then)) {
            try (InputStream in = jobs.files().open(file.getPath())) {
                PartitionOptions options = JSON.readValue(in.readAllBytes(), PartitionOptions.class);
                PartStore store = new PartStore(log.root(), options, configuration);
                begun.add(new WriteJob(file.getPath().getName(), log, store));
            }
        }
        return begun;
    }

    /// Forgets all jobs of a directory.
    static void forget(ManifestLog log) throws IOException {
        log.root().child(JOBS).delete();
    }

    /// The name of an attempt's part, which begins with its job's.
    static String partName(String job, int partition, long attempt) {
        return job + "-" + partition + "-" + attempt;
    }

    String id() {
        return id;
    }

    /// Commits a manifest, and removes what attempts have left that did not count.
    ///
    /// @param change makes the manifest of the present one, or of null if there is none; it may be called again if others commit meanwhile
    /// @throws CommitConflictException by `change`: all that the job wrote has gone then
    void commit(List<Part> parts, Change change) throws IOException {
        boolean done = false;
        try {
            while (!done) {
                Manifest next = change.from(log.current());
                done = log.commit(next);
            }
        } finally {
            if (!done) {
                abort();
            }
        }
        clean(parts.stream().map(Part::name).collect(Collectors.toSet()));
    }

    /// What comes after a manifest.
    @FunctionalInterface
    interface Change {
        /// The next manifest.
        Manifest from(@Nullable Manifest present) throws IOException;
    }

    /// Removes all that the job has written.
    void abort() throws IOException {
        clean(Set.of());
    }

    /// Removes all that the job has written but these, as far as this node reaches it.
    ///
    /// @return how many parts
    int clean(Set<String> kept) throws IOException {
        int parts = store.delete(name -> name.startsWith(id) && !kept.contains(name)).size();
        Storage jobs = log.root().child(JOBS);
        jobs.files().delete(new Path(jobs.directory(), id), false);
        return parts;
    }
}
