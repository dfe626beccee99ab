package dev.terrace.objects.spark;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolLockedException;
import dev.terrace.objects.PoolOptions;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.function.Predicate;
import org.apache.spark.SparkEnv;
import org.jspecify.annotations.Nullable;

/// The parts that a process keeps open between tasks, so that the next task need not map them and
/// fault their pages again. These are the sealed parts that were opened last, up to a number of
/// mapped bytes; a task closes its part as if nobody kept it.
///
/// A removed file keeps its memory as long as somebody has mapped it. So a thread looks every two
/// seconds whether the files are still there, and closes parts whose files are not.
///
/// Invariants:
/// * A part that is kept counts once among the openings of its pool, so a pool that a task reads
///   stays open, also when it is no longer kept.
/// * No file is opened, closed or looked at under the lock, for which other tasks would wait.
final class OpenParts {
    /// The configuration entry of the number of bytes, as Spark writes sizes; 0: none are kept.
    static final String BYTES_MAX = "spark.terrace.openParts";

    /// Its default. An extent has 1 MiB at least, so these are 4,096 mappings at most; a process
    /// may have 65,530 where nobody has raised that.
    private static final String BYTES_MAX_DEFAULT = "4g";

    private static final long LOOK_MILLIS = 2000;

    private static final System.Logger LOG = System.getLogger(OpenParts.class.getName());

    private static final OpenParts PARTS = new OpenParts();

    /// The kept parts by the directories of their pools; the one that was opened last is the last.
    private final Map<Path, Kept> kept = new LinkedHashMap<>(16, 0.75f, true);

    /// The file of each pool as it was before this pool was first opened here.
    private final Map<Pool, Stamp> stamps = new WeakHashMap<>();

    private @Nullable Thread looker;

    /// An open part.
    ///
    /// @param stamp its file when it was opened
    /// @param bytes that it has mapped
    private record Kept(Path place, Pool pool, Stamp stamp, long bytes) {
        /// Whether its file has been removed, or another one, or a changed one, is in its place.
        boolean isGone() {
            return !stamp.equals(Stamp.of(place));
        }
    }

    /// A file as it is.
    private record Stamp(String key, long bytes, FileTime changed) {
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
    /// @param place where its files are
    /// @param options how it is opened
    static Pool open(PartStore.Place place, PoolOptions options) throws IOException {
        SparkEnv environment = SparkEnv.get();
        return PARTS.open(
                place,
                options,
                environment == null
                        ? 0
                        : environment.conf().getSizeAsBytes(BYTES_MAX, BYTES_MAX_DEFAULT));
    }

    /// No longer keeps a part, because it is to be removed.
    static void letGo(Path pool) {
        PARTS.letGo(part -> part.place.equals(pool));
    }

    /// As [#letGoOfGone()].
    static void letGoOfRemoved() {
        PARTS.letGoOfGone();
    }

    /// The mapped bytes of all parts that this process keeps.
    static long bytesKept() {
        return PARTS.bytes();
    }

    /// As [#open(PartStore.Place, PoolOptions)], with this maximum of bytes.
    Pool open(PartStore.Place place, PoolOptions options, long bytesMax) throws IOException {
        Path directory = place.pool();
        Stamp stamp = Stamp.of(directory);
        letGo(part -> part.place.equals(directory) && !part.stamp.equals(stamp));
        Pool pool = openOrMakeRoom(directory, options);
        boolean done = false;
        try {
            if (stamp != null && bytesMax > 0 && pool.isSealed() && !isKept(directory, pool)) {
                long bytes = 0;
                for (Path file : LocalCopies.files(place)) {
                    bytes += Files.size(file);
                }
                if (bytes <= bytesMax) {
                    keep(directory, Pool.open(directory, options), stamp, bytes);
                }
            }
            letGo(excess(bytesMax));
            done = true;
            return pool;
        } finally {
            if (!done) {
                pool.close();
            }
        }
    }

    /// Parts that are kept may be in the way, by their options or the number of mappings.
    private Pool openOrMakeRoom(Path place, PoolOptions options) throws IOException {
        try {
            return Pool.open(place, options);
        } catch (PoolLockedException otherOptions) {
            letGo(place, otherOptions);
        } catch (NoSuchFileException gone) {
            throw gone;
        } catch (IOException noRoom) {
            letGoOfAll();
        }
        return Pool.open(place, options);
    }

    private void letGo(Path place, PoolLockedException otherwise) {
        if (!letGo(part -> part.place.equals(place))) {
            throw otherwise;
        }
    }

    private void keep(Path place, Pool pool, Stamp stamp, long bytes) {
        Kept before;
        synchronized (this) {
            Stamp first = stamps.computeIfAbsent(pool, _ -> stamp);
            before = kept.put(place, new Kept(place, pool, first, bytes));
            look();
        }
        if (before != null) {
            close(before);
        }
    }

    /// Whether a pool is kept; it is the one that was opened last then.
    private synchronized boolean isKept(Path place, Pool pool) {
        Kept part = kept.get(place);
        return part != null && part.pool == pool;
    }

    /// The mapped bytes of all parts that are kept.
    synchronized long bytes() {
        return kept.values().stream().mapToLong(Kept::bytes).sum();
    }

    /// The parts that were opened first, if there are more bytes than that.
    private synchronized Predicate<Kept> excess(long bytesMax) {
        List<Kept> eldest = new ArrayList<>();
        Iterator<Kept> all = kept.values().iterator();
        for (long bytes = bytes(); bytes > bytesMax; bytes -= eldest.getLast().bytes) {
            eldest.add(all.next());
        }
        return eldest::contains;
    }

    /// No longer keeps any part.
    void letGoOfAll() {
        letGo(_ -> true);
    }

    /// No longer keeps some parts, and returns whether there were any.
    boolean letGo(Predicate<Kept> isUnwanted) {
        List<Kept> all;
        synchronized (this) {
            all = List.copyOf(kept.values());
        }
        boolean any = false;
        for (Kept part : all) {
            if (isUnwanted.test(part) && remove(part)) {
                close(part);
                any = true;
            }
        }
        return any;
    }

    /// A failure is logged only, because the caller opens another part.
    private static void close(Kept part) {
        try {
            part.pool.close();
        } catch (RuntimeException e) {
            LOG.log(System.Logger.Level.WARNING, part.place + " could not be closed", e);
        }
    }

    private synchronized boolean remove(Kept part) {
        return kept.remove(part.place, part);
    }

    /// No longer keeps parts whose files have been removed or changed; none if Spark has ended.
    void letGoOfGone() {
        letGo(SparkEnv.get() == null ? _ -> true : Kept::isGone);
    }

    private void look() {
        if (looker == null) {
            Thread thread =
                    Thread.ofPlatform()
                            .daemon()
                            .name("terrace-open-parts")
                            .inheritInheritableThreadLocals(false)
                            .unstarted(this::lookAgain);
            // That of the first task would be kept as long as this thread.
            thread.setContextClassLoader(OpenParts.class.getClassLoader());
            thread.start();
            looker = thread;
        }
    }

    private void lookAgain() {
        try {
            while (isAnyKept()) {
                Thread.sleep(LOOK_MILLIS);
                letGoOfGone();
            }
        } catch (InterruptedException e) {
            letGoOfAll();
        } finally {
            forgetLooker();
        }
    }

    /// Whether a part is kept. If not, the thread that looks ends.
    private synchronized boolean isAnyKept() {
        if (kept.isEmpty()) {
            looker = null;
        }
        return looker == Thread.currentThread();
    }

    private synchronized void forgetLooker() {
        if (looker == Thread.currentThread()) {
            looker = null;
        }
    }
}
