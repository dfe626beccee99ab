package dev.terrace.objects.evaluation.graph;

import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

/// Reads archives of plain files, as tar writes them.
final class TarFile {
    private static final int BLOCK_BYTES = 512;
    private static final int NAME_BYTES = 100;
    private static final int SIZE_AT = 124;
    private static final int SIZE_BYTES = 12;
    private static final int OCTAL = 8;

    private TarFile() {}

    /// All its files, by name.
    ///
    /// @throws IOException if it is no such archive
    static Map<String, byte[]> read(InputStream in) throws IOException {
        Map<String, byte[]> files = new LinkedHashMap<>();
        while (true) {
            byte[] header = in.readNBytes(BLOCK_BYTES);
            // Two blocks of zeros end it.
            if (header.length < BLOCK_BYTES || header[0] == 0) {
                return files;
            }
            int size = size(header);
            byte[] content = in.readNBytes(size);
            if (content.length < size) {
                throw new EOFException(
                        "the archive ends in the middle of " + text(header, 0, NAME_BYTES));
            }
            files.put(text(header, 0, NAME_BYTES), content);
            in.skipNBytes(-size & BLOCK_BYTES - 1);
        }
    }

    private static int size(byte[] header) throws IOException {
        String digits = text(header, SIZE_AT, SIZE_BYTES).strip();
        try {
            return Integer.parseInt(digits, OCTAL);
        } catch (NumberFormatException e) {
            throw new IOException("this is no tar archive: a size is " + digits, e);
        }
    }

    private static String text(byte[] header, int at, int length) {
        int end = at;
        while (end < at + length && header[end] != 0) {
            end++;
        }
        return new String(header, at, end - at, StandardCharsets.US_ASCII);
    }
}
