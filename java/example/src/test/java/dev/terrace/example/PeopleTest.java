package dev.terrace.example;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class PeopleTest {
    private static final int COUNT = 800;
    private static final int MOVES = 100;

    @TempDir Path pmem;

    @TempDir Path disk;

    /// The example checks itself: what is left of people is compared with what there was.
    @Test
    void theExampleRunsToItsEnd() throws IOException {
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        new People(pmem, disk, COUNT, MOVES, new PrintStream(out, true, StandardCharsets.UTF_8))
                .show();
        String said = out.toString(StandardCharsets.UTF_8);
        assertTrue(said.contains("{Chile=100, India=100,"), said);
        assertTrue(said.contains("has the best image"), said);
    }
}
