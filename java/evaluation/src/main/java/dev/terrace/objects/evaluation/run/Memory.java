package dev.terrace.objects.evaluation.run;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/// The memory of a process, in bytes.
///
/// @param heapMax how large its heap might have become
/// @param residentPeak the most that was resident at a time, with pages of files that it had
///   mapped, in tmpfs too
/// @param anonymous what is its alone, at the end: heap, compiled code, stacks
public record Memory(long heapMax, long residentPeak, long anonymous) {
    private static final Path STATUS = Path.of("/proc/self/status");
    private static final int KIB = 1024;

    /// Of this process, now; zeros where the system does not tell.
    public static Memory now() throws IOException {
        List<String> status = Files.exists(STATUS) ? Files.readAllLines(STATUS) : List.of();
        return new Memory(
                Runtime.getRuntime().maxMemory(),
                bytes(status, "VmHWM:"),
                bytes(status, "RssAnon:"));
    }

    private static long bytes(List<String> status, String of) {
        return status.stream()
                .filter(line -> line.startsWith(of))
                .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")) * KIB)
                .findFirst()
                .orElse(0);
    }
}
