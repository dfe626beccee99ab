package dev.terrace.objects.internal.store;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// The most recently read values of segments. A consistent read that is repeated takes them from
/// here instead of the remote tier. Without this cache, a read would never end while a writer
/// commits faster than the tier answers.
///
/// Invariant: a segment's number is used once, and a segment is written once, so a cached value
/// never becomes wrong.
final class SegmentCache {
    private static final int BYTES_MAX = 8 << 20;

    private final LinkedHashMap<Key, byte[]> values = new LinkedHashMap<>(16, 0.75f, true);
    private long bytes;

    private record Key(long segment, long offset) {}

    /// Bytes of the cached values.
    synchronized long bytes() {
        return bytes;
    }

    /// A copy of the value at `offset` of a segment; null if it is not cached.
    synchronized byte @Nullable [] get(long segment, long offset) {
        byte[] value = values.get(new Key(segment, offset));
        return value == null ? null : value.clone();
    }

    /// Caches a value until newer ones replace it. The last value is cached even if it is large.
    synchronized void put(long segment, long offset, byte[] value) {
        byte[] before = values.put(new Key(segment, offset), value.clone());
        bytes += value.length - (before == null ? 0 : before.length);
        Iterator<Map.Entry<Key, byte[]>> oldest = values.entrySet().iterator();
        while (bytes > BYTES_MAX && values.size() > 1) {
            bytes -= oldest.next().getValue().length;
            oldest.remove();
        }
    }
}
