package dev.terrace.objects;

import dev.terrace.objects.internal.store.Segments;
import java.io.IOException;

/// Segments that a program keeps, as the store sees them.
record ProgramSegments(SegmentStore segments) implements Segments {
    @Override
    public String name() {
        return segments.name();
    }

    @Override
    public void write(String segment, byte[] bytes) throws IOException {
        try {
            segments.write(segment, bytes);
        } catch (TerraceException failure) {
            throw Failures.turnedBack(failure);
        }
    }

    @Override
    public byte[] read(String segment, long from, int length) throws IOException {
        try {
            return segments.read(segment, from, length);
        } catch (TerraceException failure) {
            throw Failures.turnedBack(failure);
        }
    }

    @Override
    public void delete(String segment) throws IOException {
        try {
            segments.delete(segment);
        } catch (TerraceException failure) {
            throw Failures.turnedBack(failure);
        }
    }
}
