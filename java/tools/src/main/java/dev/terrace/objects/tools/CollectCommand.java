package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolReport;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import picocli.CommandLine.Command;

/// Frees what no root reaches.
@Command(
        name = "collect",
        description =
                "Frees what no root reaches. Opens the pool to write: no program may have it open"
                        + " for that. Of a pool that is damaged nothing is freed.")
final class CollectCommand extends PoolCommand {
    @Override
    public Integer call() throws IOException {
        try (PoolArguments.Opened opened = arguments.openToWrite()) {
            Pool pool = opened.pool();
            PoolReport report = Progress.during(spec, pool::collect);
            if (arguments.isJson()) {
                Map<String, Object> map = new LinkedHashMap<>();
                map.put("freed", new TreeMap<>(report.leaked()));
                map.put("freed_bytes", report.leakedBytes());
                out().println(Json.of(map));
            } else {
                new TreeMap<>(report.leaked())
                        .forEach((name, count) -> out().println("freed: " + count + " of " + name));
                out().println("freed: " + Text.bytes(report.leakedBytes()));
            }
            return Main.OK;
        }
    }
}
