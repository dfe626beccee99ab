package dev.terrace.objects.tools;

import dev.terrace.objects.Profile;
import dev.terrace.objects.placement.Device;
import dev.terrace.objects.placement.Placement;
import dev.terrace.objects.placement.PlacementProblem;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/// A placement with its reasons, to be read or written.
///
/// @param profile that it is for
/// @param placement the answer
record PlacementReport(Profile profile, Placement placement) {
    /// The cost with the present tags; null if the devices do not have the tags' tiers.
    private @Nullable Double costNow() {
        PlacementProblem problem = placement.problem();
        int @Nullable [] now = problem.tagged(profile);
        return now == null ? null : problem.cost(now);
    }

    private List<Device> devices() {
        return placement.problem().devices();
    }

    /// To be written as JSON.
    Map<String, Object> asMap() {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("cost_ns", placement.cost());
        map.put("lower_bound_ns", placement.lowerBound());
        map.put("gap", placement.gap());
        Double now = costNow();
        if (now != null) {
            map.put("cost_as_tagged_ns", now);
        }
        map.put("devices", placement.uses().stream().map(PlacementReport::asMap).toList());
        map.put("fields", placement.explain().stream().map(PlacementReport::asMap).toList());
        return map;
    }

    private static Map<String, Object> asMap(Placement.Use use) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("name", use.device().name());
        map.put("simulated", use.device().simulated());
        map.put("used_bytes", use.bytes());
        map.put("capacity_bytes", use.device().capacityBytes());
        return map;
    }

    private static Map<String, Object> asMap(Placement.Explanation explanation) {
        List<Object> alternatives = new ArrayList<>();
        explanation
                .alternatives()
                .forEach(alternative -> {
                    Map<String, Object> map = new LinkedHashMap<>();
                    map.put("device", alternative.device().name());
                    map.put("cost_ns", alternative.nanos());
                    map.put("difference_ns", alternative.differenceNanos());
                    map.put("obstacle", alternative.obstacle());
                    alternatives.add(map);
                });
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("class", explanation.field().type());
        map.put("field", explanation.field().field());
        map.put("device", explanation.device().name());
        map.put("access_ns", explanation.choice().accessNanos());
        map.put("failure_ns", explanation.choice().failureNanos());
        map.put("alternatives", alternatives);
        return map;
    }

    /// To be read.
    void print(PrintWriter out) {
        List<String> reasons = new ArrayList<>();
        Text.Table table = new Text.Table(head());
        for (Placement.Explanation explanation : placement.explain()) {
            List<String> row =
                    new ArrayList<>(
                            List.of(
                                    explanation.field().toString(),
                                    explanation.device().label(),
                                    Text.nanos(explanation.choice().nanos())));
            for (Device device : devices()) {
                row.add(cell(explanation, device, reasons));
            }
            table.row(row.toArray(String[]::new));
        }
        table.print(out);
        for (int i = 0; i < reasons.size(); i++) {
            out.println("(" + (i + 1) + ") " + reasons.get(i));
        }
        out.println();
        printUses(out);
        out.println();
        printCosts(out);
    }

    private String[] head() {
        List<String> head = new ArrayList<>(List.of("field", "lies on", "costs"));
        devices().forEach(device -> head.add("on " + device.label()));
        return head.toArray(String[]::new);
    }

    private static String cell(
            Placement.Explanation explanation, Device device, List<String> reasons) {
        if (device.equals(explanation.device())) {
            return "*";
        }
        Placement.Alternative alternative =
                explanation.alternatives().stream()
                        .filter(each -> each.device().equals(device))
                        .findAny()
                        .orElseThrow();
        String difference =
                (alternative.differenceNanos() < 0 ? "-" : "+")
                        + Text.nanos(Math.abs(alternative.differenceNanos()));
        if (alternative.obstacle().isEmpty()) {
            return difference;
        }
        if (!reasons.contains(alternative.obstacle())) {
            reasons.add(alternative.obstacle());
        }
        return difference + " (" + (reasons.indexOf(alternative.obstacle()) + 1) + ")";
    }

    private void printUses(PrintWriter out) {
        Text.Table table = new Text.Table("device", "used", "of");
        placement
                .uses()
                .forEach(use ->
                        table.row(
                                use.device().label(),
                                Text.bytes(use.bytes()),
                                Text.room(use.device().capacityBytes())));
        table.print(out);
    }

    private void printCosts(PrintWriter out) {
        String proved =
                placement.isOptimal()
                        ? "no placement costs less"
                        : String.format(
                                Locale.ROOT,
                                "another may cost %.2f %% less: the search ended at its limit",
                                100 * placement.gap());
        out.println("costs " + Text.nanos(placement.cost()) + " in all; " + proved);
        Double now = costNow();
        if (now != null) {
            out.println(
                    "as tagged now: "
                            + Text.nanos(now)
                            + (now > 0
                                    ? String.format(
                                            Locale.ROOT,
                                            ", of which this is %.3f",
                                            placement.cost() / now)
                                    : ""));
        }
    }
}
