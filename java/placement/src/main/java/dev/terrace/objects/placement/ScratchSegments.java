package dev.terrace.objects.placement;

import dev.terrace.objects.SegmentStore;
import java.io.IOException;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/// A remote tier that forgets, when it is closed, all that was written through it.
final class ScratchSegments implements SegmentStore, AutoCloseable {
    private final SegmentStore segments;
    private final Set<String> written = ConcurrentHashMap.newKeySet();

    ScratchSegments(SegmentStore segments) {
        this.segments = segments;
    }

    @Override
    public String name() {
        return segments.name();
    }

    @Override
    public void write(String segment, byte[] bytes) throws IOException {
        written.add(segment);
        segments.write(segment, bytes);
    }

    @Override
    public byte[] read(String segment, long from, int length) throws IOException {
        return segments.read(segment, from, length);
    }

    @Override
    public void delete(String segment) throws IOException {
        segments.delete(segment);
        written.remove(segment);
    }

    @Override
    public List<String> list() throws IOException {
        return segments.list();
    }

    @Override
    public void close() throws IOException {
        for (String segment : List.copyOf(written)) {
            delete(segment);
        }
    }
}
