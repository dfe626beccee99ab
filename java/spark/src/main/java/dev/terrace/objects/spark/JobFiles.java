package dev.terrace.objects.spark;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.time.Instant;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.zip.CRC32C;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.jspecify.annotations.Nullable;

/// Files of one kind that jobs write beside the manifests. Manifests lead to sections of them.
///
/// Invariant: a file is written once, and is durable before a manifest leads to it.
///
/// @param files the directory that they are in
record JobFiles(Storage files) {
    private static final String DELETIONS = "deletions";
    private static final String LISTS = "lists";

    /// Those that say which rows of parts are deleted.
    static JobFiles deletions(Storage root) {
        return new JobFiles(root.child(DELETIONS));
    }

    /// Those that list parts.
    static JobFiles lists(Storage root) {
        return new JobFiles(root.child(LISTS));
    }

    /// Those of each kind.
    static List<JobFiles> all(Storage root) {
        return List.of(deletions(root), lists(root));
    }

    /// The checksum of a section, as manifests have it.
    static String crc(byte[] bytes) {
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        return HexFormat.of().toHexDigits((int) crc.getValue());
    }

    /// The path of a file.
    Path path(String name) {
        return new Path(files.directory(), name);
    }

    /// Writes a file.
    ///
    /// @param name that no other has
    void write(String name, byte[] bytes) throws IOException {
        files.write(name, bytes);
    }

    /// Reads a section of a file.
    ///
    /// @param crc its checksum
    /// @param what it holds, for messages
    /// @throws PoolFormatException if the file is not there
    /// @throws PoolDamagedException if it is not what was written
    byte[] read(String name, long from, int length, String crc, String what) throws IOException {
        byte[] bytes = new byte[length];
        try (FSDataInputStream in = files.files().open(path(name))) {
            in.readFully(from, bytes);
        } catch (FileNotFoundException e) {
            throw new PoolFormatException(
                    path(name)
                            + ", with "
                            + what
                            + ", is not there for "
                            + String.join(", ", Hosts.local())
                            + ": a vacuum has removed it, or the directory is not shared",
                    e);
        } catch (EOFException e) {
            throw damaged(name, what, "it is too short", e);
        }
        if (!crc(bytes).equals(crc)) {
            throw damaged(name, what, "its checksum is wrong", null);
        }
        return bytes;
    }

    /// The exception for a file that is not what was written.
    PoolDamagedException damaged(String name, String what, String why, @Nullable Throwable cause) {
        return new PoolDamagedException(
                path(name)
                        + " is damaged: of "
                        + what
                        + " "
                        + why
                        + ". Restore it, or read an earlier version of the table",
                cause);
    }

    /// The names of files that were written before then.
    Set<String> namesBefore(Instant then) throws IOException {
        return files.before(then).stream()
                .map(file -> file.getPath().getName())
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /// Removes files whose names are so.
    void delete(Predicate<String> isWanted) throws IOException {
        for (String name : files.list()) {
            if (isWanted.test(name)) {
                files.child(name).delete();
            }
        }
    }

    /// Removes all of them.
    void deleteAll() throws IOException {
        files.delete();
    }
}
