package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolReport;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import picocli.CommandLine.Command;

/// Looks whether a pool is sound.
@Command(
        name = "check",
        description =
                "Looks at all of a pool: whether it is sound, and what no root reaches (which is no"
                    + " damage: `collect` frees it). Only reads, also while a program writes to the"
                    + " pool or after one was killed.")
final class CheckCommand extends PoolCommand {
    @Override
    public Integer call() throws IOException {
        try (PoolArguments.Opened opened = arguments.openToRead()) {
            Pool pool = opened.pool();
            PoolReport report = Progress.during(spec, pool::check);
            if (arguments.isJson()) {
                out().println(Json.of(asMap(report)));
            } else {
                print(report, out());
            }
            return report.problems().isEmpty() ? Main.OK : Main.DAMAGED;
        }
    }

    /// The findings, for JSON.
    static Map<String, Object> asMap(PoolReport report) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("sound", report.problems().isEmpty());
        map.put("problems", report.problems());
        map.put("objects", new TreeMap<>(report.objects()));
        map.put("leaked", new TreeMap<>(report.leaked()));
        map.put("leaked_bytes", report.leakedBytes());
        map.put("stale_references", report.staleReferences());
        return map;
    }

    /// Prints the findings for people.
    static void print(PoolReport report, PrintWriter out) {
        report.problems().forEach(problem -> out.println("damaged: " + Text.oneLine(problem)));
        long objects = report.objects().values().stream().mapToLong(Long::longValue).sum();
        out.println(
                Text.count(objects, "object")
                        + " of "
                        + Text.count(report.objects().size(), "class", "classes"));
        new TreeMap<>(report.leaked())
                .forEach((name, count) -> out.println("leaked: " + count + " of " + name));
        if (report.leakedBytes() > 0) {
            out.println("leaked: " + Text.bytes(report.leakedBytes()) + ", which collect frees");
        }
        if (report.staleReferences() > 0) {
            out.println(
                    Text.count(report.staleReferences(), "reference")
                            + " to what has been deleted");
        }
        out.println(
                report.problems().isEmpty()
                        ? "The pool is sound."
                        : "The pool is damaged: "
                                + Text.count(report.problems().size(), "problem")
                                + ".");
    }
}
