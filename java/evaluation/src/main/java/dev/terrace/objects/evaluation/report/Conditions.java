package dev.terrace.objects.evaluation.report;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/// Under what conditions something was measured.
///
/// @param machine processors, memory and system
/// @param java the version of Java
/// @param date the day, in UTC
/// @param command that measures it again
/// @param cachesDropped whether the system kept nothing of files in memory when a process began;
///   null where that makes no difference
public record Conditions(
        String machine, String java, String date, String command, @Nullable Boolean cachesDropped) {
    private static final Path CPU = Path.of("/proc/cpuinfo");
    private static final Path MEMORY = Path.of("/proc/meminfo");
    private static final double KIB_PER_GIB = 1 << 20;

    /// Of this machine, now.
    public static Conditions now(String command, @Nullable Boolean cachesDropped)
            throws IOException {
        String machine =
                Runtime.getRuntime().availableProcessors()
                        + " processors ("
                        + value(CPU, "model name")
                        + "), "
                        + memory()
                        + ", "
                        + System.getProperty("os.name")
                        + " "
                        + System.getProperty("os.version");
        return new Conditions(
                machine,
                Runtime.version().toString(),
                LocalDate.now(ZoneOffset.UTC).toString(),
                command,
                cachesDropped);
    }

    private static String memory() throws IOException {
        String total = value(MEMORY, "MemTotal").replaceAll("[^0-9]", "");
        return total.isEmpty()
                ? "memory unknown"
                : Math.round(Long.parseLong(total) / KIB_PER_GIB) + " GiB";
    }

    private static String value(Path file, String of) throws IOException {
        if (!Files.exists(file)) {
            return "unknown";
        }
        try (Stream<String> lines = Files.lines(file)) {
            return lines.filter(line -> line.startsWith(of))
                    .map(line -> line.substring(line.indexOf(':') + 1).strip())
                    .findFirst()
                    .orElse("unknown");
        }
    }

    /// All of them, in a paragraph.
    @Override
    public String toString() {
        String all = machine + ", Java " + java + ", " + date + ", `" + command + "`.";
        if (cachesDropped == null) {
            return all;
        }
        return all
                + (cachesDropped
                        ? " The system's page cache was dropped before each process."
                        : " The system's page cache was not dropped: files on disks may have been"
                                + " in memory.");
    }
}
