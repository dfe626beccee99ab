package dev.terrace.objects.evaluation.run;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;

/// The system's page cache.
public final class PageCache {
    private static final Path DROP = Path.of("/proc/sys/vm/drop_caches");

    private PageCache() {}

    /// Has the system forget it, so that files on disks are read from there. Only root may.
    ///
    /// @return whether it has
    public static boolean drop() throws InterruptedException {
        try {
            Process sync = new ProcessBuilder("sync").start();
            boolean isDone = sync.waitFor(1, TimeUnit.MINUTES);
            Files.writeString(DROP, "3");
            return isDone;
        } catch (IOException forbidden) {
            return false;
        }
    }
}
