package dev.terrace.objects;

import java.io.IOException;
import java.util.List;

/// A store for the segments of a pool's remote tier. Segments are files that are written once, as a
/// whole, read in parts, and deleted as a whole.
///
/// Any number of threads may use it. A pool does not close it.
public interface SegmentStore {
    /// The name of the store in messages.
    String name();

    /// Writes a segment, which is durable when the method returns. If it throws an exception, a
    /// part or all of the segment may exist.
    ///
    /// @throws java.nio.file.FileAlreadyExistsException if a segment with this name exists
    /// @throws dev.terrace.objects.PoolFullException if there is no room for it
    /// @throws IOException if the operation fails
    void write(String segment, byte[] bytes) throws IOException;

    /// Reads bytes `from` to `from + length` of a segment.
    ///
    /// @throws java.nio.file.NoSuchFileException if there is no such segment
    /// @throws java.io.EOFException if it ends before
    /// @throws IOException if the operation fails
    byte[] read(String segment, long from, int length) throws IOException;

    /// Deletes a segment, if a segment with this name exists.
    ///
    /// @throws IOException if the operation fails
    void delete(String segment) throws IOException;

    /// The names of all segments. Pools never use this method; people and tests do.
    ///
    /// @throws IOException if the operation fails
    List<String> list() throws IOException;
}
