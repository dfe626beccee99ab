package dev.terrace.objects;

import dev.terrace.objects.internal.store.Feature;
import dev.terrace.objects.internal.store.StoreFailure;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import javax.management.ObjectName;
import org.jspecify.annotations.Nullable;

/// The pools that are open in this process. Each pool is open at most once for writing and once
/// read-only: a second lock on the same file would undo the first, and two writers would not see
/// each other's changes. The read-only pool sees committed states, as another process would.
final class OpenPools {
    private static final Map<Key, Open> POOLS = new HashMap<>();

    /// A pool's directory, and whether it is read-only.
    private record Key(Path directory, boolean readOnly) {}

    private static final class Open {
        final Pool pool;
        final PoolOptions options;
        int count = 1;
        private @Nullable ObjectName bean;

        Open(Pool pool, PoolOptions options) {
            this.pool = pool;
            this.options = options;
        }

        /// Gives the pool its bean, unless it has one.
        void show() {
            PoolFiles files = pool.files();
            if (bean == null && files != null) {
                bean = PoolBean.register(pool, files);
            }
        }

        void hide() {
            if (bean != null) {
                PoolBean.unregister(pool, bean);
            }
        }
    }

    private OpenPools() {}

    static Pool open(Path directory, PoolOptions options) throws IOException {
        synchronized (POOLS) {
            if (options.create() && !Files.exists(directory)) {
                Files.createDirectories(directory);
            }
            if (!Files.isDirectory(directory)) {
                String is = Files.exists(directory) ? " is no directory" : " is not there";
                throw new PoolFormatException(
                        directory + is + ", so it is no pool: look at the path");
            }
            Path place = directory.toRealPath();
            Key key = new Key(place, options.readOnly());
            Open open = POOLS.get(key);
            if (open == null) {
                open = new Open(openNow(place, options), options);
                POOLS.put(key, open);
            } else {
                requireSame(open, options, place);
                open.count++;
            }
            if (options.jmx()) {
                open.show();
            }
            return open.pool;
        }
    }

    private static void requireSame(Open open, PoolOptions options, Path place) {
        boolean hasChecksums = Feature.CHECKED_PMEM.isIn(open.pool.store().pmem());
        List<String> differences = options.differences(open.options, place, hasChecksums);
        if (!differences.isEmpty()) {
            throw new PoolLockedException(
                    place
                            + " is open in this process with other options: "
                            + String.join("; ", differences)
                            + ": open it with the same, or close it first");
        }
    }

    private static Pool openNow(Path place, PoolOptions options) throws IOException {
        try {
            return poolOn(PoolFiles.open(place, options));
        } catch (StoreFailure failure) {
            throw Failures.told(failure);
        }
    }

    /// A pool that cannot be opened closes its files and releases its lock.
    private static Pool poolOn(PoolFiles files) {
        boolean done = false;
        try {
            Pool pool = Pool.on(files);
            ProfiledRun.begin(pool);
            done = true;
            return pool;
        } finally {
            if (!done) {
                files.close();
            }
        }
    }

    static void close(Pool pool) {
        synchronized (POOLS) {
            PoolFiles files = pool.files();
            Key key = files == null ? null : new Key(files.directory(), files.isReadOnly());
            Open open = key == null ? null : POOLS.get(key);
            if (files == null || open == null || open.pool != pool) {
                return;
            }
            if (open.count == 1) {
                pool.requireNotAtWork();
                POOLS.remove(key);
                open.hide();
                try {
                    ProfiledRun.end(pool);
                } finally {
                    pool.closeNow(files);
                }
            }
            open.count--;
        }
    }
}
