package dev.terrace.objects.spark;

import java.io.Serial;
import java.io.Serializable;

/// The rows of a part that are deleted, as the manifest names them: a bitmap, which is a section of
/// a file ([DeletionFiles]).
///
/// @param file its name, which is that of the job that wrote it
/// @param from the section's first byte
/// @param bytes how many it has
/// @param crc their CRC-32C, in 8 hexadecimal digits
/// @param rows how many rows are deleted
record Deletions(String file, long from, int bytes, String crc, long rows) implements Serializable {
    @Serial private static final long serialVersionUID = 1L;
}
