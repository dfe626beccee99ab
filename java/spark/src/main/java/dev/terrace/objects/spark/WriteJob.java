package dev.terrace.objects.spark;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import java.util.function.Predicate;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.jspecify.annotations.Nullable;

/// A job that writes parts, as its driver sees it: each attempt of a task makes parts of its own,
/// and the driver commits those of the attempts that counted. So nothing is there twice, however
/// often a task was tried.
///
/// From when it begins until all that does not count has been removed, a file says where it writes,
/// for a vacuum after a driver that was killed.
final class WriteJob {
    private static final String JOBS = "jobs";

    /// In the names of its files of lists, before the number of the attempt to commit.
    private static final String LISTS = "-lists-";

    private static final Pattern NAME =
            Pattern.compile(
                    "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-\\d+-\\d+(-\\d+)?|"
                            + LISTS
                            + "\\d+)?");
    private static final ObjectMapper JSON = new ObjectMapper();

    private final String id;
    private final ManifestLog log;
    private final PartStore store;

    /// Whether a manifest leads to what the job has written, or may: nothing of it is to be removed
    /// then.
    private boolean mayCount;

    private WriteJob(String id, ManifestLog log, PartStore store) {
        this.id = id;
        this.log = log;
        this.store = store;
    }

    /// Begins a job.
    ///
    /// @throws UnsupportedOperationException if the file system cannot keep commits apart
    static WriteJob begin(ManifestLog log, PartStore store) throws IOException {
        WriteJob job = new WriteJob(UUID.randomUUID().toString(), log, store);
        Storage jobs = log.root().child(JOBS);
        Path file = new Path(jobs.directory(), job.id);
        byte[] bytes = JSON.writeValueAsBytes(store.options());
        boolean done = false;
        try {
            try (OutputStream out = jobs.files().create(file, false)) {
                out.write(bytes);
            }
            log.requireCommits(file, bytes);
            done = true;
        } finally {
            if (!done) {
                job.abort();
            }
        }
        return job;
    }

    /// Jobs of a directory that began before then, and have not ended as they should.
    static List<WriteJob> begunBefore(ManifestLog log, Instant then, Configuration configuration)
            throws IOException {
        Storage jobs = log.root().child(JOBS);
        List<WriteJob> begun = new ArrayList<>();
        for (FileStatus file : jobs.before(then)) {
            try {
                PartStore store =
                        new PartStore(log.root(), options(jobs, file.getPath()), configuration);
                begun.add(new WriteJob(file.getPath().getName(), log, store));
            } catch (FileNotFoundException ended) {
                // As it should.
            }
        }
        return begun;
    }

    private static PartitionOptions options(Storage jobs, Path file) throws IOException {
        try (InputStream in = jobs.files().open(file)) {
            return JSON.readValue(in.readAllBytes(), PartitionOptions.class);
        } catch (JsonProcessingException e) {
            // The driver, or its machine, ended before the file was complete.
            return PartitionOptions.defaults();
        }
    }

    /// Whether the job has made what has this name: a part, or a file of deletions or lists.
    boolean hasMade(String name) {
        return name.startsWith(id);
    }

    /// Forgets all jobs of a directory.
    static void forget(ManifestLog log) throws IOException {
        log.root().child(JOBS).delete();
    }

    /// The name of an attempt's part, which begins with its job's. Of several it is followed by
    /// their numbers.
    static String partName(String job, int partition, long attempt) {
        return job + "-" + partition + "-" + attempt;
    }

    /// Whether some job has made a part, or a file of deletions or lists, of this name.
    static boolean isName(String name) {
        return NAME.matcher(name).matches();
    }

    /// Its name, which its file of deletions has as well.
    String id() {
        return id;
    }

    /// Commits a manifest, and removes what attempts have left that did not count.
    ///
    /// @param change makes the manifest of the present one, or of null if there is none; it may be
    ///   called again if others commit meanwhile. If it gives null, there is nothing to commit: all
    ///   that the job has written is removed
    /// @throws CommitConflictException by `change`, or if what the job wrote was removed: nothing
    ///   of it is there then
    /// @throws IOException if the manifest could not be written: nothing of the job is there then,
    ///   unless the message says so
    void commit(Change change) throws IOException {
        Set<String> kept = Set.of();
        try {
            for (int attempt = 0; !mayCount; attempt++) {
                Manifest next = change.from(log.current());
                if (next == null) {
                    return;
                }
                Manifest listed = log.listed(next, id + LISTS + attempt);
                kept = listed.allNames();
                tryToCommit(listed);
            }
        } finally {
            abort();
        }
        removeAllBut(kept);
    }

    private void tryToCommit(Manifest next) throws IOException {
        requireNotRemoved();
        mayCount = true;
        try {
            mayCount = log.commit(next);
        } catch (IOException e) {
            String known = known(next, e);
            mayCount = known != null;
            if (mayCount) {
                throw new IOException(
                        "commit " + next.number() + " of " + log.root() + " " + known, e);
            }
            throw e;
        }
    }

    /// What can be said of a commit that failed and may count all the same; null: it does not.
    private @Nullable String known(Manifest next, IOException failure) {
        boolean isUnsure = failure instanceof WriteOnce.UnsureException;
        try {
            if (log.isThere(next)) {
                return "is there, but it is not sure that it outlasts a power cut: do not write the"
                        + " same again";
            }
        } catch (IOException e) {
            failure.addSuppressed(e);
            isUnsure = true;
        }
        return isUnsure
                ? "may be there, or come: the file system has given no answer. Look what is there"
                        + " before you write the same again"
                : null;
    }

    /// A vacuum, or whoever drops the table, removes the job's file with its parts.
    private void requireNotRemoved() throws IOException {
        Storage jobs = log.root().child(JOBS);
        if (!jobs.files().exists(new Path(jobs.directory(), id))) {
            throw new CommitConflictException(
                    "what was written to "
                            + log.root()
                            + " has been removed before it was complete, by DROP TABLE, "
                            + "or by a vacuum of an age shorter than this job: write again");
        }
    }

    /// The next manifest, as a function of the last one.
    @FunctionalInterface
    interface Change {
        /// The next manifest; null: none is wanted.
        @Nullable Manifest from(@Nullable Manifest present) throws IOException;
    }

    /// Removes all that the job has written, unless it counts.
    void abort() {
        if (!mayCount) {
            removeAllBut(Set.of());
        }
    }

    /// The job has already succeeded or failed. A file that cannot be removed changes nothing, and
    /// must not hide why the job failed. The job's file stays then, and a vacuum continues.
    private void removeAllBut(Set<String> kept) {
        try {
            clean(kept);
        } catch (IOException | UncheckedIOException left) {
            // As said above.
        }
    }

    /// Removes all that the job has written but these, as far as this node reaches it.
    ///
    /// @return how many parts
    int clean(Set<String> kept) throws IOException {
        Predicate<String> isWaste = name -> hasMade(name) && !kept.contains(name);
        int parts = store.delete(isWaste).size();
        for (JobFiles files : JobFiles.all(log.root())) {
            files.delete(isWaste);
        }
        Storage jobs = log.root().child(JOBS);
        jobs.files().delete(new Path(jobs.directory(), id), false);
        return parts;
    }
}
