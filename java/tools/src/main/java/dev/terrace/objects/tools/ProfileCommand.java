package dev.terrace.objects.tools;

import picocli.CommandLine.Command;
import picocli.CommandLine.HelpCommand;

/// The command with subcommands for profiles.
@Command(
        name = "profile",
        description =
                "Profiles: what programs did with the fields of their objects. A program makes one"
                        + " of each pool that it opens when it is started with"
                        + " -Dterrace.profile=DIRECTORY and terrace-objects-placement on its class"
                        + " path.",
        subcommands = {
            ProfileShowCommand.class,
            ProfileAddCommand.class,
            ProfilePredictCommand.class,
            HelpCommand.class
        },
        synopsisSubcommandLabel = "COMMAND",
        mixinStandardHelpOptions = true)
final class ProfileCommand {}
