package dev.terrace.objects;

import dev.terrace.objects.internal.backup.BlockStore;
import dev.terrace.objects.internal.backup.Copying;
import dev.terrace.objects.internal.backup.Restoring;
import dev.terrace.objects.internal.backup.State;
import dev.terrace.objects.internal.store.Medium;
import dev.terrace.objects.internal.store.StoreFailure;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;

/// A directory of backups of one pool. A backup holds the pool as of one commit, on all tiers but
/// the remote one. Backups share the blocks that are the same.
///
/// Programs may write to the pool meanwhile. A writer waits for a tenth of a second at most at a
/// time, between two transactions: once or twice, or more often if it changes blocks faster than
/// they are copied.
public final class Backups {
    private final Path directory;

    /// A use of the directory.
    private interface Use<T> {
        T with(BlockStore store) throws IOException;
    }

    private Backups(Path directory) {
        this.directory = directory;
    }

    /// The backups in a directory; the first one makes the directory if needed.
    public static Backups in(Path directory) {
        return new Backups(directory);
    }

    private <T> T change(boolean create, Use<T> use) throws IOException {
        try (BlockStore store = BlockStore.open(directory, create)) {
            return use.with(store);
        } catch (StoreFailure failure) {
            throw Failures.told(failure);
        }
    }

    private <T> T read(Use<T> use) throws IOException {
        try (BlockStore store = BlockStore.openToRead(directory)) {
            return use.with(store);
        } catch (StoreFailure failure) {
            throw Failures.told(failure);
        }
    }

    private static Backup told(State state) {
        return new Backup(
                state.name().number(),
                Instant.ofEpochMilli(state.millis()),
                state.name().pool(),
                (state.sequence() + 1) / 2,
                state.bytes(),
                state.bytesStored());
    }

    /// Backs a pool up, which may be open to read only, and checks the copy: that needs room for
    /// all of the pool in the directory for a while.
    ///
    /// @throws IOException if files cannot be read or written; earlier backups are as they were
    /// @throws PoolDamagedException if the pool, or the directory, is damaged
    /// @throws PoolFormatException if the directory holds something else, or the pool has values on
    ///   a remote tier
    /// @throws PoolBusyException if the directory is in use, or no single commit was seen within
    ///   the pool's patience
    public Backup add(Pool pool) throws IOException {
        return add(pool, true);
    }

    /// The same.
    ///
    /// @param checked whether the copy is checked
    /// @throws IOException if files cannot be read or written; earlier backups are as they were
    public Backup add(Pool pool, boolean checked) throws IOException {
        PoolFiles files = pool.files();
        if (files == null) {
            throw new PoolFormatException(pool + " has no files that could be backed up");
        }
        Path place = files.directory().toRealPath();
        for (Path at = directory.toAbsolutePath().normalize(); at != null; at = at.getParent()) {
            if (Files.exists(at) && at.toRealPath().startsWith(place)) {
                throw new PoolFormatException(
                        directory + " lies in the pool's directory: put backups elsewhere");
            }
        }
        return change(
                true,
                store -> {
                    try {
                        State state = Copying.of(pool.store(), place, store, files.patience());
                        if (checked) {
                            check(store, state);
                        }
                        store.add(state);
                        return told(state);
                    } catch (IOException | RuntimeException | Error why) {
                        sweep(store, why);
                        throw why;
                    }
                });
    }

    /// Removes what a backup has left that failed; the next one does it otherwise.
    private static void sweep(BlockStore store, Throwable why) {
        try {
            store.sweep();
        } catch (IOException | StoreFailure also) {
            why.addSuppressed(also);
        }
    }

    /// The backups, the oldest first.
    ///
    /// @throws IOException if they cannot be read
    public List<Backup> list() throws IOException {
        return read(store -> store.states(Backups::told));
    }

    /// Keeps the last so many backups, at least one, and returns how many went.
    ///
    /// @throws IOException if files cannot be removed
    public int keep(int count) throws IOException {
        if (count < 1) {
            throw new IllegalArgumentException(count + " backups to keep: at least one stays");
        }
        return change(false, store -> store.keep(count));
    }

    /// Reads all backups, and returns what of them is damaged or missing. As [#list()] and
    /// [#restore(Path, PoolOptions)], this needs no permission to write to their directory.
    ///
    /// @throws IOException if they cannot be read
    public List<String> verify() throws IOException {
        return read(BlockStore::verify);
    }

    /// Makes a new pool of the last backup.
    ///
    /// @throws IOException if files cannot be read or written, or are there already
    public UUID restore(Path pool, PoolOptions options) throws IOException {
        return read(store -> {
            long last = store.lastNumber();
            if (last == 0) {
                throw new PoolFormatException(directory + " holds no backup that has ended");
            }
            return restore(store, last, pool, options);
        });
    }

    /// Makes a new pool of a backup. It has an identity of its own, which is returned.
    ///
    /// @param pool the directory of the new pool
    /// @param options with the directories of its disks, of the same tiers
    /// @throws IOException if files cannot be read or written, or are there already
    public UUID restore(long number, Path pool, PoolOptions options) throws IOException {
        return read(store -> restore(store, number, pool, options));
    }

    private UUID restore(BlockStore store, long number, Path pool, PoolOptions options)
            throws IOException {
        State state = store.state(number);
        if (state == null) {
            throw new PoolFormatException(directory + " holds no backup " + number);
        }
        try {
            return restore(store, state, pool, options);
        } catch (StoreFailure.Damaged e) {
            if (store.isGone(number)) {
                throw new PoolFormatException(
                        directory + " holds no backup " + number + " any more", e);
            }
            throw e;
        }
    }

    private static UUID restore(BlockStore store, State state, Path pool, PoolOptions options)
            throws IOException {
        List<Restoring.Disk> disks =
                options.disksOrDefault().stream()
                        .map(disk -> {
                            Path at = disk.directory() == null ? pool : disk.directory();
                            return new Restoring.Disk(Medium.named(disk.tier()), at);
                        })
                        .toList();
        return Restoring.of(store, state, pool, disks);
    }

    /// Checks a state as a pool, which is removed afterwards.
    private static void check(BlockStore store, State state) throws IOException {
        Path place = store.check();
        store.removeCheck();
        try {
            PoolOptions options = PoolOptions.defaults();
            for (State.Part part : state.files().subList(1, state.files().size())) {
                options = options.disk(StorageTier.valueOf(part.tier().name()), place);
            }
            restore(store, state, place, options);
            try (Pool pool = Pool.open(place, options.toRead())) {
                List<String> problems = new ArrayList<>(pool.check().problems());
                if (!problems.isEmpty()) {
                    throw new PoolDamagedException(
                            "the pool is damaged, so there is no backup of it: "
                                    + problems.getFirst());
                }
            }
        } finally {
            store.removeCheck();
        }
    }
}
