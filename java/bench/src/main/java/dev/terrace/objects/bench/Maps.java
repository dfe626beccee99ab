package dev.terrace.objects.bench;

import dev.terrace.objects.Pool;
import dev.terrace.objects.collections.DurableMap;
import dev.terrace.objects.collections.ElementType;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import org.mapdb.DB;
import org.mapdb.DBMaker;
import org.mapdb.Serializer;

/// Where maps are made: on the heap, in a pool, or in a file of MapDB's beside the pool's.
///
/// A put into the pool is a transaction of its own, and so is one into `mapdb-commit`; `mapdb`
/// keeps no log, and loses the file if the process is killed.
final class Maps implements AutoCloseable {
    private static final int EXTENT_BYTES = 64 << 20;

    private final Path directory;
    private final @Nullable Pool pool;
    private final @Nullable DB db;
    private final boolean commits;

    Maps(String kind) throws IOException {
        directory = Samples.directory(false);
        commits = kind.equals("mapdb-commit");
        pool = kind.equals("pool") ? Samples.open(directory, EXTENT_BYTES) : null;
        if (kind.startsWith("mapdb")) {
            DBMaker.Maker maker =
                    DBMaker.fileDB(directory.resolve("mapdb").toFile()).fileMmapEnable();
            db = (commits ? maker.transactionEnable() : maker).make();
        } else {
            db = null;
        }
    }

    /// An empty map.
    Map<Long, Long> make(String name) {
        if (pool != null) {
            return DurableMap.root(pool, name, ElementType.LONG, ElementType.LONG);
        }
        return db == null
                ? new HashMap<>()
                : db.hashMap(name, Serializer.LONG, Serializer.LONG).createOrOpen();
    }

    /// Makes all puts durable, for maps that need a commit.
    void commit() {
        if (commits && db != null) {
            db.commit();
        }
    }

    @Override
    public void close() throws IOException {
        if (pool != null) {
            pool.close();
        }
        if (db != null) {
            db.close();
        }
        Samples.delete(directory);
    }
}
