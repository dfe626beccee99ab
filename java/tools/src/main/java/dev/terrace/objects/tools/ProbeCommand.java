package dev.terrace.objects.tools;

import dev.terrace.objects.placement.Device;
import dev.terrace.objects.placement.DeviceReport;
import dev.terrace.objects.placement.Probe;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// Measures what accesses cost.
@Command(
        name = "probe",
        description =
                "Measures what it costs on this machine to read and to write values of each tier,"
                    + " with all that a pool does for it. Makes scratch files in the directories"
                    + " and removes them. Nothing else should run meanwhile.")
final class ProbeCommand extends FileCommand {
    @Parameters(paramLabel = "PMEM", description = "A directory in persistent memory.")
    private Path pmem = Path.of("");

    @Mixin private TierArguments tiers = new TierArguments();

    @Option(
            names = {"-o", "--output"},
            paramLabel = "FILE",
            description = "Where the costs go, for `place`.")
    private @Nullable Path output;

    @Option(
            names = "--quick",
            description =
                    "Takes a second or two, for a first look; without this option some ten seconds"
                            + " a tier.")
    private boolean quick;

    @Option(
            names = "--cached",
            paramLabel = "SHARE",
            description =
                    "How many of the reads from disks and the remote tier are answered by a cache,"
                            + " from 0 to 1; 0 without this option.")
    private double cached;

    @Option(
            names = "--capacity",
            paramLabel = "TIER=BYTES",
            converter = {Capacities.NameConverter.class, SizeConverter.class},
            description = "How much room there is on a tier: pmem=1G.")
    private Map<String, Long> capacities = new LinkedHashMap<>();

    @Override
    public Integer call() throws IOException {
        if (!(cached >= 0 && cached <= 1)) {
            throw wrong("--cached: " + cached + " is not from 0 to 1");
        }
        if (!Files.isDirectory(pmem)) {
            throw wrong(pmem + " is no directory");
        }
        Probe.Effort effort = quick ? Probe.Effort.QUICK : Probe.Effort.THOROUGH;
        DeviceReport measured =
                tiers.use((options, segments) -> {
                    try (segments) {
                        return Progress.during(
                                spec,
                                () -> {
                                    try {
                                        return new Probe(pmem, options, effort, cached).run();
                                    } catch (IOException e) {
                                        throw new UncheckedIOException(e);
                                    }
                                });
                    }
                });
        DeviceReport report =
                new DeviceReport(
                        measured.measured(),
                        Capacities.apply(measured.devices(), capacities, this));
        if (output != null) {
            report.write(output);
        }
        if (json) {
            out().println(Json.of(asMap(report)));
        } else {
            print(report, out());
        }
        return Main.OK;
    }

    private static Map<String, Object> asMap(DeviceReport report) {
        List<Object> devices = new ArrayList<>();
        for (Device device : report.devices()) {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("name", device.name());
            map.put("capacity_bytes", device.capacityBytes());
            map.put("failure_probability", device.failureProbability());
            map.put("simulated", device.simulated());
            map.put("note", device.note());
            map.put("read_ns", points(device, true));
            map.put("write_ns", points(device, false));
            devices.add(map);
        }
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("measured", report.measured());
        map.put("devices", devices);
        return map;
    }

    private static Map<String, Object> points(Device device, boolean reads) {
        Map<String, Object> points = new LinkedHashMap<>();
        (reads ? device.read() : device.write())
                .points()
                .forEach(point -> points.put(Long.toString(point.bytes()), point.nanos()));
        return points;
    }

    private static void print(DeviceReport report, PrintWriter out) {
        out.println(report.measured());
        out.println();
        TreeSet<Long> sizes = new TreeSet<>();
        report.devices()
                .forEach(device ->
                        device.read().points().forEach(point -> sizes.add(point.bytes())));
        List<String> head = new ArrayList<>(List.of("", "room", ""));
        sizes.forEach(size -> head.add(Text.bytes(size)));
        Text.Table table = new Text.Table(head.toArray(String[]::new));
        for (Device device : report.devices()) {
            table.row(
                    row(
                            device.label(),
                            Text.room(device.capacityBytes()),
                            "read",
                            sizes,
                            device,
                            true));
            table.row(row("", "", "write", sizes, device, false));
        }
        table.print(out);
        report.devices().stream()
                .filter(device -> !device.note().isEmpty())
                .forEach(device -> out.println(device.label() + ": " + device.note()));
    }

    private static String[] row(
            String label,
            String room,
            String what,
            TreeSet<Long> sizes,
            Device device,
            boolean reads) {
        List<String> cells = new ArrayList<>(List.of(label, room, what));
        sizes.forEach(size ->
                cells.add(Text.nanos((reads ? device.read() : device.write()).nanos(size))));
        return cells.toArray(String[]::new);
    }
}
