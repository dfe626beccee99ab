package dev.terrace.objects.tools;

import picocli.CommandLine.Command;
import picocli.CommandLine.HelpCommand;

/// The command with subcommands for the targets of placements.
@Command(
        name = "apply",
        description =
                "Applies a placement: to a pool, whose values move, or to sources, whose tags"
                        + " change.",
        subcommands = {ApplyPoolCommand.class, ApplySourcesCommand.class, HelpCommand.class},
        synopsisSubcommandLabel = "COMMAND",
        mixinStandardHelpOptions = true)
final class ApplyCommand {}
