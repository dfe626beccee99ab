package dev.terrace.objects.evaluation.graph;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class TarFileTest {
    private final ByteArrayOutputStream archive = new ByteArrayOutputStream();

    private void add(String name, String content, String size) {
        byte[] header = new byte[512];
        byte[] nameBytes = name.getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(nameBytes, 0, header, 0, nameBytes.length);
        byte[] sizeBytes = size.getBytes(StandardCharsets.US_ASCII);
        System.arraycopy(sizeBytes, 0, header, 124, sizeBytes.length);
        archive.writeBytes(header);
        byte[] bytes = content.getBytes(StandardCharsets.US_ASCII);
        archive.writeBytes(Arrays.copyOf(bytes, (bytes.length + 511) / 512 * 512));
    }

    private Map<String, byte[]> read(byte[] bytes) throws IOException {
        return TarFile.read(new ByteArrayInputStream(bytes));
    }

    @Test
    void filesAreReadByName() throws IOException {
        add("empty", "", "00000000000");
        add("letters", "a".repeat(600), "00000001130");
        add("few", "xyz", "00000000003 ");
        archive.writeBytes(new byte[1024]);
        Map<String, byte[]> files = read(archive.toByteArray());
        assertEquals(List.of("empty", "letters", "few"), List.copyOf(files.keySet()));
        assertEquals(600, files.get("letters").length);
        assertArrayEquals("xyz".getBytes(StandardCharsets.US_ASCII), files.get("few"));
    }

    @Test
    void anArchiveThatIsCutOffIsRefused() {
        add("letters", "a".repeat(600), "00000001130");
        byte[] cut = Arrays.copyOf(archive.toByteArray(), 700);
        assertThrows(EOFException.class, () -> read(cut));
    }

    @Test
    void whatIsNoArchiveIsRefused() {
        add("letters", "", "many");
        assertThrows(IOException.class, () -> read(archive.toByteArray()));
    }
}
