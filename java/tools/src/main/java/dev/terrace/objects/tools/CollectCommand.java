package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolReport;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// Frees what no root reaches.
@Command(
        name = "collect",
        description = "Frees what no root reaches. Opens the pool to write: no program may have it open for that. Of a pool that is"
                + " damaged nothing is freed.",
        mixinStandardHelpOptions = true)
final class CollectCommand implements Callable<Integer> {
    @Mixin
    private PoolArguments arguments = new PoolArguments();

    @Spec
    private CommandSpec spec = CommandSpec.create();

    @Override
    public Integer call() throws IOException {
        PrintWriter out = spec.commandLine().getOut();
        try (PoolArguments.Opened opened = arguments.openToWrite()) {
            Pool pool = opened.pool();
            PoolReport report = Progress.during(spec, pool::collect);
            if (arguments.isJson()) {
                Map<String, Object> map = new LinkedHashMap<>();
                map.put("freed", new TreeMap<>(report.leaked()));
                map.put("freed_bytes", report.leakedBytes());
                out.println(Json.of(map));
            } else {
                new TreeMap<>(report.leaked()).forEach((name, count) -> out.println("freed: " + count + " of " + name));
                out.println("freed: " + Text.bytes(report.leakedBytes()));
            }
            return Main.OK;
        }
    }
}
