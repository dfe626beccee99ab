package dev.terrace.objects.tools;

import dev.terrace.objects.FieldSpec;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDump;
import dev.terrace.objects.RetierReport;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.StoredType;
import dev.terrace.objects.placement.PlacementFile;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/// Applies a placement to a pool.
@Command(
        name = "pool",
        description =
                "Has values of a pool lie where a placement says, from now on and for all programs,"
                        + " whatever their tags say, and moves those there are. Opens the pool to"
                        + " write. May be interrupted, and goes on when it is run again.")
final class ApplyPoolCommand extends PoolCommand {
    @Option(
            names = "--placement",
            required = true,
            paramLabel = "FILE",
            description = "What `place` wrote.")
    private Path placement = Path.of("");

    @Override
    public Integer call() throws IOException {
        Map<String, Map<String, List<StorageTier>>> wanted = PlacementFile.read(placement);
        try (PoolArguments.Opened opened = arguments.openToWrite()) {
            Pool pool = opened.pool();
            Map<String, Map<String, List<StorageTier>>> possible = possible(pool, wanted);
            RetierReport report = Progress.during(spec, () -> pool.place(possible));
            if (arguments.isJson()) {
                Map<String, Object> map = new LinkedHashMap<>();
                map.put("placements", possible);
                map.put("moved", report.valuesMoved());
                map.put("moved_bytes", report.bytesMoved());
                map.put("left", report.valuesLeft());
                out().println(Json.of(map));
            } else {
                possible.forEach((type, fields) ->
                        fields.forEach((field, tiers) ->
                                out().println(
                                                type
                                                        + "."
                                                        + field
                                                        + ": "
                                                        + ProfileShowCommand.tiers(tiers))));
                out().println(
                                "moved: "
                                        + report.valuesMoved()
                                        + " values, "
                                        + Text.bytes(report.bytesMoved()));
                if (report.valuesLeft() > 0) {
                    out().println(
                                    "left where they were, for want of room: "
                                            + Text.count(report.valuesLeft(), "value"));
                }
            }
            return Main.OK;
        } catch (IllegalArgumentException e) {
            throw new IOException(String.valueOf(e.getMessage()), e);
        }
    }

    /// The placement for the pool, without fields that cannot move because they lie within records
    /// or in memory.
    private static Map<String, Map<String, List<StorageTier>>> possible(
            Pool pool, Map<String, Map<String, List<StorageTier>>> wanted) throws IOException {
        Map<String, FieldSpec> stored = new TreeMap<>();
        for (StoredType type : new PoolDump(pool).types()) {
            type.fields().forEach(field -> stored.put(type.name() + "." + field.name(), field));
        }
        List<String> impossible = new ArrayList<>();
        Map<String, Map<String, List<StorageTier>>> possible = new TreeMap<>();
        wanted.forEach((type, fields) -> {
            // Also of a class of which nothing is said: its tags hold again.
            Map<String, List<StorageTier>> its =
                    possible.computeIfAbsent(type, _ -> new TreeMap<>());
            fields.forEach((field, tiers) -> {
                FieldSpec spec = stored.get(type + "." + field);
                boolean stays =
                        spec != null
                                && (spec.isVolatile() || spec.isInline() && !spec.isCollection());
                if (!stays) {
                    its.put(field, tiers);
                } else if (!tiers.equals(
                        List.of(spec.isVolatile() ? StorageTier.DRAM : StorageTier.PMEM))) {
                    impossible.add(type + "." + field);
                }
            });
        });
        if (!impossible.isEmpty()) {
            throw new IOException(
                    String.join(", ", impossible)
                            + " cannot move in a pool that is there: `place --live` leaves such"
                            + " fields where they are, and `apply sources` tags them for new"
                            + " objects");
        }
        return possible;
    }
}
