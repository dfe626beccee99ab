package dev.terrace.objects.spark;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolLockedException;
import dev.terrace.objects.PoolOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.Iterator;
import java.util.LinkedHashMap;
import org.apache.spark.SparkEnv;
import org.jspecify.annotations.Nullable;

/// The parts that a process keeps open between tasks, so that the next task need not map them and
/// fault their pages again. These are the sealed parts that were opened last, up to a number of
/// bytes; a task closes its part as if nobody kept it.
///
/// A removed file keeps its memory as long as somebody has mapped it. So a thread looks every two
/// seconds whether the files are still there, and closes parts whose files are not.
///
/// Invariant: a part that is kept counts once among the openings of its pool, so a pool that a task
/// reads stays open, also when it is no longer kept.
final class OpenParts {
    /// The configuration entry of the number of bytes, as Spark writes sizes; 0: none are kept.
    static final String BYTES_MAX = "spark.terrace.openParts";

    /// Its default. So many mapped bytes take 32 MiB for page tables at most.
    private static final String BYTES_MAX_DEFAULT = "16g";

    private static final long LOOK_MILLIS = 2000;

    private static final OpenParts PARTS = new OpenParts();

    /// The kept parts by the directories of their pools; the one that was opened last is the last.
    private final LinkedHashMap<Path, Kept> kept = new LinkedHashMap<>();

    private @Nullable Thread looker;

    /// An open part.
    ///
    /// @param stamp its file when it was opened
    /// @param bytes of its files
    private record Kept(Pool pool, Stamp stamp, long bytes) {}

    /// A file as it is. Another one in its place differs, and so does a file that was changed.
    private record Stamp(Object key, long bytes, FileTime changed) {
        static @Nullable Stamp of(Path pool) {
            try {
                BasicFileAttributes file =
                        Files.readAttributes(pool.resolve("pool"), BasicFileAttributes.class);
                return new Stamp(
                        String.valueOf(file.fileKey()), file.size(), file.lastModifiedTime());
            } catch (IOException gone) {
                return null;
            }
        }
    }

    /// Tests make their own; a process has one.
    OpenParts() {}

    /// Opens a part to read it. The caller closes it.
    ///
    /// @param pool the directory of the part's pool
    /// @param options how it is opened
    /// @param bytes of the part
    static Pool open(Path pool, PoolOptions options, long bytes) throws IOException {
        return PARTS.open(pool, options, bytes, bytesMax());
    }

    /// No longer keeps parts whose files have been removed; none if Spark has ended.
    static void letGoOfRemoved() {
        PARTS.letGoOfRemoved(SparkEnv.get() == null);
    }

    /// The bytes of all parts that this process keeps.
    static long bytesKept() {
        return PARTS.bytes();
    }

    private static long bytesMax() {
        SparkEnv environment = SparkEnv.get();
        return environment == null
                ? 0
                : environment.conf().getSizeAsBytes(BYTES_MAX, BYTES_MAX_DEFAULT);
    }

    /// As [#open(Path, PoolOptions, long)], with this maximum of bytes.
    synchronized Pool open(Path place, PoolOptions options, long bytes, long bytesMax)
            throws IOException {
        Stamp stamp = Stamp.of(place);
        Kept before = kept.remove(place);
        if (before != null && !before.stamp.equals(stamp)) {
            before.pool.close();
            before = null;
        }
        Pool pool;
        try {
            pool = Pool.open(place, options);
        } catch (PoolLockedException otherOptions) {
            if (before == null) {
                throw otherOptions;
            }
            before.pool.close();
            return Pool.open(place, options);
        }
        if (before != null) {
            kept.put(place, before);
        } else if (stamp != null && bytes <= bytesMax && pool.isSealed()) {
            kept.put(place, new Kept(Pool.open(place, options), stamp, bytes));
            look();
        }
        letGoOfEldest(bytesMax);
        return pool;
    }

    private void letGoOfEldest(long bytesMax) {
        Iterator<Kept> eldest = kept.values().iterator();
        for (long bytes = bytes(); bytes > bytesMax; ) {
            Kept part = eldest.next();
            bytes -= part.bytes;
            eldest.remove();
            part.pool.close();
        }
    }

    /// The bytes of all parts that are kept.
    synchronized long bytes() {
        return kept.values().stream().mapToLong(Kept::bytes).sum();
    }

    /// No longer keeps parts whose files have been removed or changed.
    ///
    /// @param all whether it keeps no others either
    synchronized void letGoOfRemoved(boolean all) {
        kept.entrySet()
                .removeIf(part -> {
                    boolean isGone = all || !part.getValue().stamp.equals(Stamp.of(part.getKey()));
                    if (isGone) {
                        part.getValue().pool.close();
                    }
                    return isGone;
                });
    }

    private void look() {
        if (looker == null) {
            looker = Thread.ofPlatform().daemon().name("terrace-open-parts").start(this::lookAgain);
        }
    }

    private void lookAgain() {
        try {
            while (isAnyKept()) {
                Thread.sleep(LOOK_MILLIS);
                letGoOfRemoved(SparkEnv.get() == null);
            }
        } catch (InterruptedException e) {
            letGoOfRemoved(true);
        }
    }

    /// Whether a part is kept. If not, the thread that looks ends.
    private synchronized boolean isAnyKept() {
        looker = kept.isEmpty() ? null : looker;
        return looker != null;
    }
}
