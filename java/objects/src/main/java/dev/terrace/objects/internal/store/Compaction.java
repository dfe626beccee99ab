package dev.terrace.objects.internal.store;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.List;

/// The store's part of a compaction: it plans which chunks values are to leave, and gives back the
/// chunks that become free. For one thread; other threads may write between its calls.
public final class Compaction implements AutoCloseable {
    private final Store store;
    private final List<Disk> disks;

    /// One for persistent memory, then one for each disk.
    private final List<Evacuation> evacuations = new ArrayList<>();

    Compaction(Store store, List<Disk> disks) {
        this.store = store;
        this.disks = disks;
        for (int index = -1; index < disks.size(); index++) {
            evacuations.add(new Evacuation(store.allocatorOf(index), index >= 0));
        }
    }

    /// Starts anew: no value has been counted, and values may lie anywhere.
    public void countAnew() {
        store.alone(() -> {
            evacuations.forEach(Evacuation::countAnew);
            return true;
        });
    }

    /// Counts a value that can move.
    public void count(Buffers.Place place) {
        if (place.disk() != Buffers.Place.REMOTE) {
            of(place).count(place.offset());
        }
    }

    private Evacuation of(Buffers.Place place) {
        return evacuations.get(place.disk() + 1);
    }

    /// Plans to move values out of chunks of which little is in use.
    public void planSparse() {
        store.alone(() -> {
            evacuations.forEach(Evacuation::planSparse);
            return true;
        });
    }

    /// Plans to move values out of the ends of disks.
    public void planTails() {
        store.alone(() -> {
            evacuations.forEach(Evacuation::planTail);
            return true;
        });
    }

    /// Whether a value in that place is to move.
    public boolean wants(Buffers.Place place) {
        return place.disk() != Buffers.Place.REMOTE && of(place).wants(place.offset());
    }

    /// Whether any value is to move.
    public boolean isPlanned() {
        return store.alone(() -> evacuations.stream().anyMatch(Evacuation::isPlanned));
    }

    /// Gives back chunks that are divided into slots and are empty, and returns the number of free
    /// chunks.
    public long releaseEmpty() {
        return store.alone(() -> {
            for (int index = -1; index < disks.size(); index++) {
                boolean more = true;
                while (more) {
                    // Each call gives back as many as fit into a log.
                    more = store.parts().releaseEmpty(store.allocatorOf(index));
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

    /// Gives back empty extents at the end of disks, and returns the number of bytes.
    ///
    /// First a commit marks them as unused, then the file is truncated. If the process dies in
    /// between, the file is longer than needed, and the next call truncates it.
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

    /// New values may lie anywhere again.
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
