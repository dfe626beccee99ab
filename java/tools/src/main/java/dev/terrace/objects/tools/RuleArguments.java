package dev.terrace.objects.tools;

import dev.terrace.objects.Profile;
import dev.terrace.objects.StorageTier;
import dev.terrace.objects.placement.CostModel;
import dev.terrace.objects.placement.FieldName;
import dev.terrace.objects.placement.PlacementOptions;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// How costs are counted, and what is said of fields. A field is named by as much of the end of
/// `package.Class.field` as tells it from others.
final class RuleArguments {
    @Option(
            names = "--model",
            paramLabel = "MODEL",
            description =
                    "What a failure costs: `expected`, a recomputation for each object; or `paper`,"
                        + " one for each access, as the paper's formula has it. Expected without"
                        + " this option.")
    private CostModel model = CostModel.EXPECTED;

    @Option(
            names = "--durable",
            paramLabel = "FIELD",
            description = "A field that must lie on a durable device.")
    private List<String> durable = List.of();

    @Option(
            names = "--may-be-lost",
            paramLabel = "FIELD",
            description = "A field that may lie in memory though nothing computes it again.")
    private List<String> mayBeLost = List.of();

    @Option(
            names = "--never",
            paramLabel = "FIELD=TIER[,TIER]",
            description = "A field that never lies on these tiers.")
    private List<String> never = List.of();

    @Option(
            names = "--only",
            paramLabel = "FIELD=TIER[,TIER]",
            description = "A field that lies on one of these tiers.")
    private List<String> only = List.of();

    @Option(
            names = "--recompute",
            paramLabel = "FIELD=TIER:MICROSECONDS",
            description =
                    "How long it takes to have a value again that was lost with its device, instead"
                            + " of what the profile measured.")
    private List<String> recompute = List.of();

    @Option(
            names = "--live",
            description =
                    "For a pool that is there: what lies within its records stays there, as only"
                            + " new objects follow other tags.")
    private boolean live;

    @Spec(Spec.Target.MIXEE)
    private CommandSpec command = CommandSpec.create();

    /// All of it, of the fields of a profile.
    PlacementOptions options(Profile profile) {
        PlacementOptions options = PlacementOptions.defaults().model(model);
        try {
            options = live ? options.live(profile) : options;
            for (String field : durable) {
                options = options.durable(FieldName.in(profile, field));
            }
            for (String field : mayBeLost) {
                options = options.mayBeLost(FieldName.in(profile, field));
            }
            for (String rule : never) {
                options = options.never(FieldName.in(profile, name(rule)), tiers(value(rule)));
            }
            for (String rule : only) {
                options = options.only(FieldName.in(profile, name(rule)), tiers(value(rule)));
            }
            for (String rule : recompute) {
                FieldName field = FieldName.in(profile, name(rule));
                String[] parts = value(rule).split(":", 2);
                if (parts.length < 2) {
                    throw new IllegalArgumentException(
                            "--recompute: '"
                                    + rule
                                    + "' does not say how long: FIELD=TIER:MICROSECONDS is wanted");
                }
                options =
                        options.recompute(
                                field, tier(parts[0]), 1000 * Double.parseDouble(parts[1]));
            }
        } catch (NumberFormatException e) {
            throw new ParameterException(
                    command.commandLine(),
                    "--recompute: a number of microseconds is wanted: " + e.getMessage(),
                    e);
        } catch (IllegalArgumentException e) {
            throw new ParameterException(command.commandLine(), String.valueOf(e.getMessage()), e);
        }
        return options;
    }

    private static String name(String rule) {
        int equals = rule.indexOf('=');
        if (equals < 0) {
            throw new IllegalArgumentException(
                    "'" + rule + "' does not say what of: FIELD=... is wanted");
        }
        return rule.substring(0, equals);
    }

    private static String value(String rule) {
        return rule.substring(rule.indexOf('=') + 1);
    }

    private static StorageTier[] tiers(String names) {
        return Arrays.stream(names.split(",")).map(RuleArguments::tier).toArray(StorageTier[]::new);
    }

    private static StorageTier tier(String name) {
        return Arrays.stream(StorageTier.values())
                .filter(tier -> tier.name().equals(name.toUpperCase(Locale.ROOT)))
                .findFirst()
                .orElseThrow(() ->
                        new IllegalArgumentException(
                                "'"
                                        + name
                                        + "' is no tier, but one of "
                                        + List.of(StorageTier.values())
                                        + " is wanted"));
    }
}
