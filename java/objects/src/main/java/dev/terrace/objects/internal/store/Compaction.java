package dev.terrace.objects.internal.store;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;

/// What compaction does to a pool's tiers: which chunks values are to leave, and what comes free of
/// it. For one thread; others may write between its calls.
public final class Compaction implements AutoCloseable {
    private final Store store;
    private final List<Disk> disks;

    /// Of persistent memory, then of each disk.
    private final List<Evacuation> evacuations = new ArrayList<>();

    Compaction(Store store, List<Disk> disks) {
        this.store = store;
        this.disks = disks;
        for (int index = -1; index < disks.size(); index++) {
            evacuations.add(new Evacuation(store.allocatorOf(index), index >= 0));
        }
    }

    /// Nothing has been counted, and values may lie everywhere.
    public void countAnew() {
        store.alone(() -> {
            evacuations.forEach(Evacuation::countAnew);
            return true;
        });
    }

    /// There is a value that can move.
    public void count(Buffers.Place place) {
        if (place.disk() != Buffers.Place.REMOTE) {
            of(place).count(place.offset());
        }
    }

    private Evacuation of(Buffers.Place place) {
        return evacuations.get(place.disk() + 1);
    }

    /// Values are to leave chunks of which little is in use.
    public void planSparse() {
        store.alone(() -> {
            evacuations.forEach(Evacuation::planSparse);
            return true;
        });
    }

    /// Values are to leave the ends of disks.
    public void planTails() {
        store.alone(() -> {
            evacuations.forEach(Evacuation::planTail);
            return true;
        });
    }

    /// Whether a value that lies there is to leave.
    public boolean wants(Buffers.Place place) {
        return place.disk() != Buffers.Place.REMOTE && of(place).wants(place.offset());
    }

    /// Whether any value is to leave.
    public boolean isPlanned() {
        return store.alone(() -> evacuations.stream().anyMatch(Evacuation::isPlanned));
    }

    /// Gives back chunks that are cut for some size and hold nothing; how many chunks are free
    /// then.
    public long releaseEmpty() {
        return store.alone(() -> {
            for (int index = -1; index < disks.size(); index++) {
                boolean more = true;
                while (more) {
                    // As many at once as a log takes.
                    more = store.releaseEmpty(store.allocatorOf(index));
                }
            }
            return freeChunks();
        });
    }

    /// How many chunks are free.
    public long freeChunks() {
        return store.alone(() -> {
            long bytes = 0;
            for (int index = -1; index < disks.size(); index++) {
                bytes += store.allocatorOf(index).freeBytes();
            }
            return bytes / SizeClasses.CHUNK_BYTES;
        });
    }

    /// Gives back extents at the end of disks that hold nothing; how many bytes.
    ///
    /// First a commit says that they are not in use, then the file gets shorter: who dies in
    /// between leaves a file that is longer than it need be, which the next to do this cuts off.
    public long giveBack() {
        long bytes = 0;
        for (Disk disk : disks) {
            bytes +=
                    store.alone(() -> {
                        store.transact(() -> {
                            disk.dropEmptyExtents();
                            return true;
                        });
                        return disk.cutOff();
                    });
        }
        return bytes;
    }

    /// New things may lie everywhere again.
    @Override
    public void close() {
        store.alone(() -> {
            for (int index = -1; index < disks.size(); index++) {
                store.allocatorOf(index).avoid(new BitSet());
            }
            return true;
        });
    }
}
