package dev.terrace.objects.tools;

import dev.terrace.objects.CompactionReport;
import dev.terrace.objects.Pool;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import picocli.CommandLine.Command;

/// Moves values closer together.
@Command(
        name = "compact",
        description =
                "Moves strings, arrays and other values closer together on each tier, and gives"
                    + " back what that leaves at the end of disks. Opens the pool to write: no"
                    + " program may have it open for that. May be interrupted, and goes on the next"
                    + " time.")
final class CompactCommand extends PoolCommand {
    @Override
    public Integer call() throws IOException {
        try (PoolArguments.Opened opened = arguments.openToWrite()) {
            Pool pool = opened.pool();
            CompactionReport report = Progress.during(spec, pool::compact);
            if (arguments.isJson()) {
                Map<String, Object> map = new LinkedHashMap<>();
                map.put("moved", report.valuesMoved());
                map.put("moved_bytes", report.bytesMoved());
                map.put("freed_chunks", report.chunksFreed());
                map.put("given_back_bytes", report.bytesGivenBack());
                out().println(Json.of(map));
            } else {
                out().println(
                                "moved: "
                                        + report.valuesMoved()
                                        + " values, "
                                        + Text.bytes(report.bytesMoved()));
                out().println("freed: " + report.chunksFreed() + " chunks of 64 KiB");
                out().println(
                                "given back: "
                                        + Text.bytes(report.bytesGivenBack())
                                        + " of disks and segments");
            }
            return Main.OK;
        }
    }
}
