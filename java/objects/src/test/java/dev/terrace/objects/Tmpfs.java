package dev.terrace.objects;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.charset.Charset;
import java.nio.file.Files;
import java.nio.file.Path;

/// A file system in memory that is soon full.
public final class Tmpfs implements AutoCloseable {
    private final Path at;

    /// Mounts it, or skips the test where that is not allowed.
    public Tmpfs(Path at, String size) throws IOException {
        this.at = Files.createDirectories(at);
        String said =
                run("mount", "-t", "tmpfs", "-o", "size=" + size, "terrace-test", at.toString());
        assumeTrue(said.isEmpty(), "only where a file system may be mounted, as root: " + said);
    }

    /// Where it is.
    public Path at() {
        return at;
    }

    /// Runs a command, and returns what is wrong with it.
    static String run(String... command) throws IOException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String said = new String(process.getInputStream().readAllBytes(), Charset.defaultCharset());
        int status = process.onExit().join().exitValue();
        return status == 0 ? "" : "status " + status + ", " + said.strip();
    }

    @Override
    public void close() throws IOException {
        assertEquals("", run("umount", at.toString()));
    }
}
