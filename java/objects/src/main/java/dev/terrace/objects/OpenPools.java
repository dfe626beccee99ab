package dev.terrace.objects;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;

/// The pools that are open in this process, each once: a second mapping, or a second lock on the same file, would undo the first.
final class OpenPools {
    private static final Map<Path, Open> POOLS = new HashMap<>();

    private static final class Open {
        final Pool pool;
        final boolean readOnly;
        int count = 1;

        Open(Pool pool, boolean readOnly) {
            this.pool = pool;
            this.readOnly = readOnly;
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
                throw new PoolFormatException(directory + is + ", so it is no pool: look at the path");
            }
            Path key = directory.toRealPath();
            Open open = POOLS.get(key);
            if (open == null) {
                Pool pool = poolOn(PoolFiles.open(key, options));
                POOLS.put(key, new Open(pool, options.readOnly()));
                return pool;
            }
            if (open.readOnly && !options.readOnly()) {
                throw new PoolLockedException(directory + " is open in this process to be read: close that first");
            }
            open.count++;
            return open.pool;
        }
    }

    /// A pool that cannot be used gives its files back, and its lock.
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
            Open open = files == null ? null : POOLS.get(files.directory());
            if (files == null || open == null || open.pool != pool) {
                return;
            }
            if (open.count == 1) {
                pool.requireNotAtWork();
                POOLS.remove(files.directory());
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
