package dev.terrace.objects.spark;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/// Files that are written once, on file systems of each kind.
class WriteOnceTest {
    private static final int NAMES = 25;
    private static final int WRITERS = 4;
    private static final byte[] BYTES =
            "0123456789".getBytes(java.nio.charset.StandardCharsets.UTF_8);

    @TempDir private Path dir;

    private final Configuration configuration = new Configuration(false);

    WriteOnceTest() {
        configuration.set("fs.conditional.impl", ConditionalFileSystem.class.getName());
        configuration.set("fs.remote.impl", RemoteFileSystem.class.getName());
        // Another test's would have that test's settings.
        configuration.set("fs.remote.impl.disable.cache", "true");
    }

    @AfterEach
    void fail() {
        ConditionalFileSystem.FAILURES.set(0);
    }

    private WriteOnce files(String uri) throws IOException {
        return WriteOnce.in(Storage.of(uri, configuration), configuration);
    }

    private WriteOnce files(Servers server) throws IOException {
        Configuration known = server.configuration();
        return WriteOnce.in(Storage.of(server.uri(dir.getFileName().toString()), known), known);
    }

    @ParameterizedTest
    @ValueSource(strings = {"file:", "conditional:", "S3", "HDFS"})
    void ofSeveralWhoWriteANameOneDoes(String where) throws Exception {
        WriteOnce files = where.endsWith(":") ? files(where + dir) : files(Servers.valueOf(where));
        List<Callable<Integer>> work = new ArrayList<>();
        for (int writer = 0; writer < WRITERS; writer++) {
            byte[] bytes = {(byte) writer};
            work.add(() -> {
                int written = 0;
                for (int i = 0; i < NAMES; i++) {
                    written += files.write("name " + i, bytes) ? 1 : 0;
                }
                return written;
            });
        }
        int written = 0;
        try (ExecutorService writers = Executors.newFixedThreadPool(WRITERS)) {
            for (Future<Integer> one : writers.invokeAll(work)) {
                written += one.get();
            }
        }
        assertEquals(NAMES, written);
    }

    @Test
    void whatCannotBeWrittenWholeIsNotThere() throws IOException {
        WriteOnce files = files("conditional:" + dir);
        ConditionalFileSystem.FAILURES.set(Integer.MAX_VALUE);
        IOException unsure =
                assertThrows(WriteOnce.UnsureException.class, () -> files.write("a", BYTES));
        assertEquals("no room for more", unsure.getMessage());
        assertFalse(Files.exists(dir.resolve("a")));
        ConditionalFileSystem.FAILURES.set(2);
        assertTrue(files.write("a", BYTES));
        assertArrayEquals(BYTES, Files.readAllBytes(dir.resolve("a")));
        assertFalse(files.write("a", new byte[] {1}));
        assertArrayEquals(BYTES, Files.readAllBytes(dir.resolve("a")));
    }

    @Test
    void aFileSystemThatPromisesNothingIsRefused() throws IOException {
        String refused =
                assertThrows(UnsupportedOperationException.class, () -> files("remote:" + dir))
                        .getMessage();
        assertTrue(
                refused.startsWith("nothing is written to remote:" + dir)
                        && refused.contains(RemoteFileSystem.class.getName())
                        && refused.endsWith("set spark.hadoop.fs.remote.terrace.commit to rename"),
                refused);
        configuration.set("fs.remote.terrace.commit", "rename");
        WriteOnce files = files("remote:" + dir);
        assertTrue(files.write("a", BYTES));
        assertFalse(files.write("a", new byte[] {1}));
        assertArrayEquals(BYTES, Files.readAllBytes(dir.resolve("a")));
        try (var names = Files.list(dir)) {
            assertEquals(List.of(dir.resolve("a")), names.toList());
        }
    }
}
