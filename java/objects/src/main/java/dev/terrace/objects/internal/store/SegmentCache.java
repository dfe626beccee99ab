package dev.terrace.objects.internal.store;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// Values of segments that were read last, so that a consistent read that has to be repeated does
/// not go to the remote tier again: beside a writer that commits faster than that answers, it would
/// never end.
///
/// Invariant: a segment's number is used once, and a segment is written once, so what is here never
/// becomes wrong.
final class SegmentCache {
    private final long bytesMax;
    private final LinkedHashMap<Key, byte[]> values = new LinkedHashMap<>(16, 0.75f, true);
    private long bytes;

    private record Key(long segment, long offset) {}

    SegmentCache(long bytesMax) {
        this.bytesMax = bytesMax;
    }

    /// A copy of the value that lies at `offset` of a segment; null if it is not here.
    synchronized byte @Nullable [] get(long segment, long offset) {
        byte[] value = values.get(new Key(segment, offset));
        return value == null ? null : value.clone();
    }

    /// Keeps a value until others have come. The last one is kept however large it is.
    synchronized void put(long segment, long offset, byte[] value) {
        byte[] before = values.put(new Key(segment, offset), value.clone());
        bytes += value.length - (before == null ? 0 : before.length);
        Iterator<Map.Entry<Key, byte[]>> oldest = values.entrySet().iterator();
        while (bytes > bytesMax && values.size() > 1) {
            bytes -= oldest.next().getValue().length;
            oldest.remove();
        }
    }
}
