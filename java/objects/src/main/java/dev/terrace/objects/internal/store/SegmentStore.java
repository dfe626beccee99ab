package dev.terrace.objects.internal.store;

import java.io.IOException;
import java.util.List;

/// Where the segments of a pool's remote tier are kept: files that are written once, as a whole,
/// read in parts and deleted as a whole.
///
/// Any number of threads may use it. A pool does not close it.
public interface SegmentStore {
    /// What messages call it.
    String name();

    /// Writes a segment. It is durable when this returns; if it throws, a part of it, or all, may
    /// be there.
    ///
    /// @throws java.nio.file.FileAlreadyExistsException if there is one of this name
    /// @throws dev.terrace.objects.PoolFullException if there is no room for it
    /// @throws IOException if that cannot be done now
    void write(String segment, byte[] bytes) throws IOException;

    /// Reads bytes `from` to `from + length` of a segment.
    ///
    /// @throws java.nio.file.NoSuchFileException if there is no such segment
    /// @throws java.io.EOFException if it ends before
    /// @throws IOException if that cannot be done now
    byte[] read(String segment, long from, int length) throws IOException;

    /// Deletes a segment, if there is one of this name.
    ///
    /// @throws IOException if that cannot be done now
    void delete(String segment) throws IOException;

    /// The names of all segments. A pool never asks for them; people and tests do.
    ///
    /// @throws IOException if that cannot be done now
    List<String> list() throws IOException;
}
