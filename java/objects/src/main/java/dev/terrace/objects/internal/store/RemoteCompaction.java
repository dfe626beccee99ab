package dev.terrace.objects.internal.store;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/// A compaction of the remote tier: values leave segments that are mostly empty, or small.
public final class RemoteCompaction {
    /// The number of values that are moved in one transaction.
    private static final int MOVED_AT_ONCE = 1000;

    /// Segments with fewer bytes are merged. It is less than a transaction of [#MOVED_AT_ONCE] of
    /// the smallest values writes.
    private static final int SMALL_BYTES = 16_000;

    private final Store store;
    private final Remote remote;

    RemoteCompaction(Store store, Remote remote) {
        this.store = store;
        this.remote = remote;
    }

    /// The result of a compaction.
    ///
    /// @param values the number of values that were moved to other segments
    /// @param bytes the bytes of these values
    /// @param bytesGivenBack by how many bytes segments have shrunk
    public record Result(long values, long bytes, long bytesGivenBack) {}

    /// Moves the values of segments that are mostly empty, or small, to new segments, in separate
    /// transactions, and deletes the old segments. If it ends early, the values moved so far stay
    /// moved.
    ///
    /// @throws StoreFailure.Unavailable if the tier cannot be reached
    Result run() {
        remote.removeEmpty();
        long before = remote.bytes();
        Set<Long> sparse = sparse();
        List<Long> found = new ArrayList<>();
        remote.forEach(
                Headers.VALUE,
                value -> {
                    if (sparse.contains(store.word(value + Remote.SEGMENT_AT))) {
                        found.add(value);
                    }
                });
        long values = 0;
        long bytes = 0;
        try {
            for (int from = 0; from < found.size(); from += MOVED_AT_ONCE) {
                List<Long> some = found.subList(from, Math.min(found.size(), from + MOVED_AT_ONCE));
                List<Integer> moved = store.transact(() -> move(some, sparse));
                values += moved.size();
                bytes += moved.stream().mapToLong(Integer::longValue).sum();
            }
        } catch (StoreFailure.Full noRoomForMore) {
            // Values that have been moved stay moved.
            return new Result(values, bytes, before - remote.bytes());
        }
        return new Result(values, bytes, before - remote.bytes());
    }

    /// Moves values that are still in such segments, and returns the bytes of each.
    private List<Integer> move(List<Long> values, Set<Long> from) {
        List<Integer> moved = new ArrayList<>();
        for (long value : values) {
            // Another thread may have freed it meanwhile.
            byte[] bytes =
                    remote.isValue(value) && from.contains(store.word(value + Remote.SEGMENT_AT))
                            ? loadToMove(value)
                            : null;
            if (bytes != null) {
                remote.leave(value);
                if (remote.fillsSegment(bytes.length)) {
                    remote.seal();
                }
                remote.hold(value, bytes);
                moved.add(bytes.length);
            }
        }
        return moved;
    }

    /// A value; null if it is damaged. A damaged value stays where it is, so that a check reports
    /// it.
    private byte @Nullable [] loadToMove(long value) {
        try {
            return remote.load(value);
        } catch (StoreFailure.Damaged damaged) {
            return null;
        }
    }

    /// The segments worth compacting.
    private Set<Long> sparse() {
        Set<Long> sparse = new HashSet<>();
        Set<Long> small = new HashSet<>();
        remote.forEach(
                Headers.SEGMENT,
                segment -> {
                    long bytes = store.word(segment + Remote.BYTES_AT);
                    long live = bytes & 0xffffffffL;
                    if (live > 0 && 2 * live < bytes >>> 32) {
                        sparse.add(segment);
                    } else if (live > 0 && bytes >>> 32 < SMALL_BYTES) {
                        small.add(segment);
                    }
                });
        if (sparse.size() + small.size() > 1) {
            sparse.addAll(small);
        }
        return sparse;
    }
}
