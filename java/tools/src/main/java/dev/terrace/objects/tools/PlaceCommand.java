package dev.terrace.objects.tools;

import dev.terrace.objects.ClassProfile;
import dev.terrace.objects.Profile;
import dev.terrace.objects.placement.BranchAndBoundSolver;
import dev.terrace.objects.placement.Device;
import dev.terrace.objects.placement.DeviceReport;
import dev.terrace.objects.placement.InfeasibleException;
import dev.terrace.objects.placement.Placement;
import dev.terrace.objects.placement.PlacementFile;
import dev.terrace.objects.placement.PlacementOptions;
import dev.terrace.objects.placement.PlacementProblem;
import dev.terrace.objects.placement.ProfileFile;
import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// Finds where fields cost least.
@Command(
        name = "place",
        description =
                "Finds the tier of each field with which all that a profile has counted costs"
                    + " least, and says why: what each other one would cost, or why it cannot be."
                    + " Changes nothing: `apply` does.")
final class PlaceCommand extends FileCommand {
    @Parameters(paramLabel = "PROFILE", description = "The file with the profile.")
    private Path file = Path.of("");

    @Option(
            names = "--devices",
            required = true,
            paramLabel = "FILE",
            description = "What accesses cost: what `probe` wrote, and anybody may have changed.")
    private Path devices = Path.of("");

    @Option(
            names = "--capacity",
            paramLabel = "DEVICE=BYTES",
            converter = {Capacities.NameConverter.class, SizeConverter.class},
            description = "How much room there is: pmem=1G.")
    private Map<String, Long> capacities = new LinkedHashMap<>();

    @Option(
            names = "--objects",
            paramLabel = "CLASS=N",
            description = "How many objects of a class there will be, instead of those there were.")
    private Map<String, Long> objects = new LinkedHashMap<>();

    @Mixin private RuleArguments rules = new RuleArguments();

    @Option(
            names = "--limit",
            paramLabel = "SECONDS",
            description =
                    "How long to search; 30 without this option. Then the best so far is the"
                            + " answer.")
    private int limit = 30;

    @Option(
            names = {"-o", "--output"},
            paramLabel = "FILE",
            description = "Where the placement goes, for `apply`.")
    private @Nullable Path output;

    @Override
    public Integer call() throws IOException {
        if (limit <= 0) {
            throw wrong("--limit: " + limit + " is not positive");
        }
        Profile profile = withObjects(ProfileFile.read(file));
        List<Device> found =
                Capacities.apply(DeviceReport.read(devices).devices(), capacities, this);
        PlacementOptions options = rules.options(profile);
        PlacementProblem problem;
        try {
            problem = PlacementProblem.of(profile, found, options);
        } catch (IllegalArgumentException e) {
            throw new IOException(String.valueOf(e.getMessage()), e);
        }
        Placement placement;
        try {
            placement =
                    Progress.during(
                            spec,
                            () ->
                                    new BranchAndBoundSolver(Duration.ofSeconds(limit))
                                            .solve(problem));
        } catch (InfeasibleException e) {
            throw new IOException(String.valueOf(e.getMessage()), e);
        }
        if (output != null) {
            PlacementFile.write(output, placement.tiers());
        }
        PlacementReport report = new PlacementReport(profile, placement);
        if (json) {
            out().println(Json.of(report.asMap()));
        } else {
            report.print(out());
        }
        return Main.OK;
    }

    private Profile withObjects(Profile profile) {
        List<ClassProfile> classes = new ArrayList<>(profile.classes());
        objects.forEach((name, count) -> {
            List<ClassProfile> meant =
                    classes.stream()
                            .filter(type ->
                                    type.name().equals(name) || type.name().endsWith("." + name))
                            .toList();
            if (meant.size() != 1 || count < 0) {
                throw wrong(
                        "--objects: "
                                + name
                                + "="
                                + count
                                + ": one of the classes "
                                + classes.stream().map(ClassProfile::name).toList()
                                + " is wanted, and how many");
            }
            ClassProfile type = meant.getFirst();
            classes.set(classes.indexOf(type), new ClassProfile(type.name(), count, type.fields()));
        });
        return new Profile(profile.nanos(), classes);
    }
}
