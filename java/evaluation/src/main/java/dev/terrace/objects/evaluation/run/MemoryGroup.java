package dev.terrace.objects.evaluation.run;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/// A limit of the memory that the processes of a control group take: their own pages, the pages of
/// files that they bring into the page cache, and what they put into tmpfs.
///
/// Pages of tmpfs count as long as they and the group exist, also after the process that made them.
public final class MemoryGroup implements AutoCloseable {
    /// The file that lists the processes of a group. One that writes its number there enters.
    static final String PROCESSES = "cgroup.procs";

    private static final Path SYSTEM = Path.of("/sys/fs/cgroup");
    private static final String PREFIX = "terrace-evaluation";

    /// The file with the limit, in bytes: of version 1, and of version 2.
    private static final String LIMIT_1 = "memory.limit_in_bytes";

    private static final String LIMIT_2 = "memory.max";
    private static final int LEAVE_SECONDS = 10;
    private static final int LEAVE_MILLIS = 20;

    private final Path directory;
    private final Runnable atExit = this::removeQuietly;

    private MemoryGroup(Path directory) {
        this.directory = directory;
        AtExit.add(atExit);
    }

    /// A new group, or none if this process may not make any here.
    public static Optional<MemoryGroup> of(long bytes) {
        return in(SYSTEM, bytes);
    }

    /// The same below another directory than the system's.
    static Optional<MemoryGroup> in(Path system, long bytes) {
        Path parent =
                Files.isDirectory(system.resolve("memory")) ? system.resolve("memory") : system;
        Path made = null;
        try {
            made = Files.createTempDirectory(parent, PREFIX);
            Path limit = made.resolve(LIMIT_1);
            Files.writeString(
                    Files.exists(limit) ? limit : existing(made.resolve(LIMIT_2)),
                    Long.toString(bytes));
            return Optional.of(new MemoryGroup(made));
        } catch (IOException notPermitted) {
            delete(made);
            return Optional.empty();
        }
    }

    /// Groups of version 2 have no limit unless their parent says so.
    private static Path existing(Path file) throws IOException {
        if (!Files.exists(file)) {
            throw new IOException(file + " does not exist");
        }
        return file;
    }

    private static void delete(@Nullable Path directory) {
        if (directory == null) {
            return;
        }
        try {
            Files.delete(directory);
        } catch (IOException e) {
            System.err.println("cannot remove " + directory + ": " + e);
        }
    }

    /// Its directory in the system's tree of groups.
    Path directory() {
        return directory;
    }

    /// Removes the group as soon as its processes have ended.
    @Override
    public void close() {
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(LEAVE_SECONDS);
        while (isUsed() && System.nanoTime() < deadline) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(LEAVE_MILLIS));
        }
        AtExit.remove(atExit);
        removeQuietly();
    }

    private boolean isUsed() {
        try {
            return !Files.readString(directory.resolve(PROCESSES)).isEmpty();
        } catch (IOException gone) {
            return false;
        }
    }

    private void removeQuietly() {
        delete(directory);
    }
}
