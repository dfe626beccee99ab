package dev.terrace.objects.spark;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.time.Instant;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.zip.CRC32C;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.Path;
import org.jspecify.annotations.Nullable;
import org.roaringbitmap.RoaringBitmap;

/// The files that say which rows of parts are deleted, beside the manifests. A job writes one, with
/// a bitmap for each part of which it deletes rows: so a commit waits for one more file, however
/// many parts it changes.
///
/// Invariants:
/// * A file is written once, and is durable before a manifest leads to it.
/// * The bitmap of a part has all rows that were ever deleted of it, so a reader needs one only.
final class DeletionFiles {
    private static final String DELETIONS = "deletions";

    private final Storage files;

    /// @param root the table's directory
    DeletionFiles(Storage root) {
        files = root.child(DELETIONS);
    }

    /// The bytes of a bitmap, in the format that RoaringBitmap specifies.
    static byte[] encode(RoaringBitmap rows) {
        rows.runOptimize();
        ByteBuffer bytes = ByteBuffer.allocate(rows.serializedSizeInBytes());
        rows.serialize(bytes);
        return bytes.array();
    }

    /// Decodes the result of [#encode(RoaringBitmap)].
    ///
    /// @throws IOException if it is none
    static RoaringBitmap decode(byte[] bytes) throws IOException {
        RoaringBitmap rows = new RoaringBitmap();
        rows.deserialize(ByteBuffer.wrap(bytes));
        return rows;
    }

    /// Writes a file.
    ///
    /// @param name that no other has
    /// @param rows deleted rows by the names of their parts
    /// @return what a manifest is to say of each part
    Map<String, Deletions> write(String name, Map<String, RoaringBitmap> rows) throws IOException {
        ByteArrayOutputStream all = new ByteArrayOutputStream();
        Map<String, Deletions> written = new HashMap<>();
        for (Map.Entry<String, RoaringBitmap> part : rows.entrySet()) {
            byte[] bytes = encode(part.getValue());
            written.put(
                    part.getKey(),
                    new Deletions(
                            name,
                            all.size(),
                            bytes.length,
                            crc(bytes),
                            part.getValue().getLongCardinality()));
            all.writeBytes(bytes);
        }
        files.write(name, all.toByteArray());
        return written;
    }

    private static String crc(byte[] bytes) {
        CRC32C crc = new CRC32C();
        crc.update(bytes);
        return HexFormat.of().toHexDigits((int) crc.getValue());
    }

    /// The deleted rows of a part, by their numbers in it; none if it has no deletions.
    ///
    /// @throws PoolFormatException if the file is not there
    /// @throws PoolDamagedException if it is not what was written
    RoaringBitmap read(Part part) throws IOException {
        Deletions deletions = part.deletions();
        if (deletions == null) {
            return new RoaringBitmap();
        }
        Path file = new Path(files.directory(), deletions.file());
        byte[] bytes = new byte[deletions.bytes()];
        try (FSDataInputStream in = files.files().open(file)) {
            in.readFully(deletions.from(), bytes);
        } catch (FileNotFoundException e) {
            throw new PoolFormatException(
                    file
                            + ", with the deleted rows of part "
                            + part.name()
                            + ", is not there for "
                            + String.join(", ", Hosts.local())
                            + ": a vacuum has removed it, or the directory is not shared",
                    e);
        } catch (EOFException e) {
            throw damaged(file, part, "it is too short", e);
        }
        if (!crc(bytes).equals(deletions.crc())) {
            throw damaged(file, part, "its checksum is wrong", null);
        }
        return checked(bytes, part, deletions, file);
    }

    private static RoaringBitmap checked(byte[] bytes, Part part, Deletions deletions, Path file) {
        try {
            RoaringBitmap rows = decode(bytes);
            if (rows.getLongCardinality() == deletions.rows()
                    && Integer.toUnsignedLong(rows.last()) < part.rows()) {
                return rows;
            }
        } catch (IOException | RuntimeException e) {
            throw damaged(file, part, "it holds no bitmap", e);
        }
        throw damaged(file, part, "it has other rows than the manifest says", null);
    }

    private static PoolDamagedException damaged(
            Path file, Part part, String why, @Nullable Throwable cause) {
        return new PoolDamagedException(
                file
                        + " is damaged: of the deleted rows of part "
                        + part.name()
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
