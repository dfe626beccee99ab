package dev.terrace.objects.spark;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.PoolFormatException;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.Map;
import org.roaringbitmap.RoaringBitmap;

/// The files that say which rows of parts are deleted, beside the manifests. A job writes one, with
/// a bitmap for each part of which it deletes rows: so a commit waits for one more file, however
/// many parts it changes.
///
/// Invariant: the bitmap of a part has all rows that were ever deleted of it, so a reader needs one
/// only.
final class DeletionFiles {
    private final JobFiles files;

    /// @param root the table's directory
    DeletionFiles(Storage root) {
        files = JobFiles.deletions(root);
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
                            JobFiles.crc(bytes),
                            part.getValue().getLongCardinality()));
            all.writeBytes(bytes);
        }
        files.write(name, all.toByteArray());
        return written;
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
        String what = "the deleted rows of part " + part.name();
        byte[] bytes =
                files.read(
                        deletions.file(),
                        deletions.from(),
                        deletions.bytes(),
                        deletions.crc(),
                        what);
        return checked(bytes, part, deletions, what);
    }

    private RoaringBitmap checked(byte[] bytes, Part part, Deletions deletions, String what) {
        try {
            RoaringBitmap rows = decode(bytes);
            if (rows.getLongCardinality() == deletions.rows()
                    && Integer.toUnsignedLong(rows.last()) < part.rows()) {
                return rows;
            }
        } catch (IOException | RuntimeException e) {
            throw files.damaged(deletions.file(), what, "it holds no bitmap", e);
        }
        throw files.damaged(
                deletions.file(), what, "it has other rows than the manifest says", null);
    }
}
