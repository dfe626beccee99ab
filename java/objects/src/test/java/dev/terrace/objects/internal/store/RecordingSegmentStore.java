package dev.terrace.objects.internal.store;

import static org.junit.jupiter.api.Assertions.assertNotNull;

import dev.terrace.objects.PoolFullException;
import dev.terrace.objects.SegmentStore;
import java.io.EOFException;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicInteger;

/// Segments in memory, of which each write and deletion is noted, so that [CrashStates] can tell
/// what a power cut would leave; it can be told to fail, or to be slow.
public final class RecordingSegmentStore implements SegmentStore {
    private final List<RecordingRegion.Event> events;
    private final Map<String, byte[]> segments = new ConcurrentSkipListMap<>();
    private final AtomicInteger reads = new AtomicInteger();
    private volatile boolean isReachable = true;
    private volatile boolean isFull;
    private volatile Duration delay = Duration.ZERO;
    private volatile Callable<?> onRefusal = () -> true;

    /// An empty one; what happens to it is added to `events`.
    public RecordingSegmentStore(List<RecordingRegion.Event> events) {
        this.events = events;
    }

    /// One that holds these segments.
    public RecordingSegmentStore(List<RecordingRegion.Event> events, Map<String, byte[]> segments) {
        this(events);
        this.segments.putAll(segments);
    }

    /// From now on nothing of it can be reached, or all can.
    public void reachable(boolean is) {
        isReachable = is;
    }

    /// What is done whenever somebody finds that it cannot be reached.
    public void onRefusal(Callable<?> action) {
        onRefusal = action;
    }

    /// From now on whatever is done takes so much longer.
    public void slow(Duration time) {
        delay = time;
    }

    /// From now on it has no room, or has some.
    public void full(boolean is) {
        isFull = is;
    }

    /// How often something was read.
    public int reads() {
        return reads.get();
    }

    /// Its segments, by their names.
    public Map<String, byte[]> segments() {
        return segments;
    }

    @Override
    public String name() {
        return "memory";
    }

    private void requireReachable() throws IOException {
        if (!delay.isZero()) {
            Delay.await(delay);
        }
        if (!isReachable) {
            try {
                assertNotNull(onRefusal.call());
            } catch (Exception e) {
                throw new AssertionError(e);
            }
            throw new IOException("no route to memory");
        }
    }

    @Override
    public void write(String segment, byte[] bytes) throws IOException {
        requireReachable();
        if (segments.containsKey(segment)) {
            throw new FileAlreadyExistsException(segment);
        }
        events.add(new RecordingRegion.Event.SegmentBegun(segment, bytes.clone()));
        if (isFull) {
            segments.put(segment, Arrays.copyOf(bytes, bytes.length / 2));
            throw new PoolFullException("memory has no room");
        }
        segments.put(segment, bytes.clone());
        events.add(new RecordingRegion.Event.SegmentDurable(segment));
    }

    @Override
    public byte[] read(String segment, long from, int length) throws IOException {
        requireReachable();
        reads.incrementAndGet();
        byte[] bytes = segments.get(segment);
        if (bytes == null) {
            throw new NoSuchFileException(segment);
        }
        if (from + length > bytes.length) {
            throw new EOFException(segment);
        }
        return Arrays.copyOfRange(bytes, (int) from, (int) from + length);
    }

    @Override
    public void delete(String segment) throws IOException {
        requireReachable();
        events.add(new RecordingRegion.Event.SegmentDeleted(segment));
        segments.remove(segment);
    }

    @Override
    public List<String> list() throws IOException {
        requireReachable();
        return List.copyOf(segments.keySet());
    }
}
