package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDump;
import dev.terrace.objects.PoolReport;
import dev.terrace.objects.PoolStatistics;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.StoredType;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import picocli.CommandLine.Command;

/// Shows what a pool uses, and for what.
@Command(
        name = "stats",
        description =
                "Shows what is used of each tier, objects, bytes and forms of each class, and which"
                    + " fields lie where the pool was told instead of where their tags say. Only"
                    + " reads, as check does.")
final class StatsCommand extends PoolCommand {
    /// A tier of the pool: its name, bytes in use, bytes of its file or segments.
    private record TierUse(String name, long used, long capacity) {}

    /// A class: objects that roots reach, bytes that these take, forms that it has had.
    private record ClassUse(long objects, long bytes, int forms) {}

    /// All of one committed state.
    private record Found(
            List<TierUse> tiers,
            Map<String, ClassUse> classes,
            Map<String, Map<String, List<StorageTier>>> placements,
            PoolReport report,
            boolean isSealed) {}

    @Override
    public Integer call() throws IOException {
        try (PoolArguments.Opened opened = arguments.openToRead()) {
            Pool pool = opened.pool();
            Found found = Progress.during(spec, () -> pool.read(() -> find(pool)));
            if (arguments.isJson()) {
                out().println(Json.of(asMap(found)));
            } else {
                print(found, out());
            }
            return found.report.problems().isEmpty() ? Main.OK : Main.DAMAGED;
        }
    }

    private static Found find(Pool pool) {
        PoolReport report = pool.check();
        Map<String, List<StoredType>> forms = new PoolDump(pool).forms();
        Map<String, ClassUse> classes = new TreeMap<>();
        forms.forEach((name, its) -> classes.put(name, new ClassUse(0, 0, its.size())));
        report.objects()
                .forEach((name, count) ->
                        classes.put(
                                name,
                                new ClassUse(
                                        count,
                                        report.bytes().getOrDefault(name, 0L),
                                        forms.getOrDefault(name, List.of()).size())));
        return new Found(tiers(pool), classes, pool.placements(), report, pool.isSealed());
    }

    private static List<TierUse> tiers(Pool pool) {
        PoolStatistics statistics = pool.statistics();
        List<TierUse> tiers = new ArrayList<>();
        for (int i = 0; i < statistics.used().size(); i++) {
            tiers.add(
                    new TierUse(
                            statistics.tiers().get(i),
                            statistics.used().get(i),
                            statistics.capacity().get(i)));
        }
        return tiers;
    }

    private static Map<String, Object> asMap(Found found) {
        List<Object> tiers = new ArrayList<>();
        found.tiers.forEach(tier -> {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("tier", tier.name);
            map.put("used_bytes", tier.used);
            map.put("capacity_bytes", tier.capacity);
            tiers.add(map);
        });
        Map<String, Object> classes = new LinkedHashMap<>();
        found.classes.forEach((name, use) -> {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("objects", use.objects);
            map.put("bytes", use.bytes);
            map.put("forms", use.forms);
            map.put("leaked", found.report.leaked().getOrDefault(name, 0L));
            classes.put(name, map);
        });
        Map<String, Object> all = new LinkedHashMap<>();
        all.put("tiers", tiers);
        all.put("classes", classes);
        all.put("placements", found.placements);
        all.put("leaked_bytes", found.report.leakedBytes());
        all.put("stale_references", found.report.staleReferences());
        all.put("problems", found.report.problems().size());
        all.put("sealed", found.isSealed);
        return all;
    }

    private static void print(Found found, PrintWriter out) {
        Text.Table tiers = new Text.Table("tier", "used", "of");
        found.tiers.forEach(
                tier -> tiers.row(tier.name, Text.bytes(tier.used), Text.bytes(tier.capacity)));
        tiers.print(out);
        out.println();
        Text.Table classes = new Text.Table("class", "objects", "bytes", "forms", "leaked");
        found.classes.forEach((name, use) ->
                classes.row(
                        name,
                        Long.toString(use.objects),
                        Text.bytes(use.bytes),
                        Integer.toString(use.forms),
                        Long.toString(found.report.leaked().getOrDefault(name, 0L))));
        classes.print(out);
        out.println();
        found.placements.forEach((type, fields) ->
                fields.forEach((field, its) ->
                        out.println(
                                "placed, whatever its tag says: "
                                        + type
                                        + "."
                                        + field
                                        + " on "
                                        + ProfileShowCommand.tiers(its))));
        out.println("leaked: " + Text.bytes(found.report.leakedBytes()));
        out.println("references to what has been deleted: " + found.report.staleReferences());
        if (found.isSealed) {
            out.println("The pool is sealed: its contents never change.");
        }
        if (!found.report.problems().isEmpty()) {
            out.println("The pool is damaged: see check.");
        }
    }
}
