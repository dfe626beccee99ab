package dev.terrace.objects.tools;

import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/// A subcommand that works on files. It does something, and returns the exit status.
@Command(mixinStandardHelpOptions = true)
abstract class FileCommand implements Callable<Integer> {
    /// Whether the answer is JSON.
    @Option(names = "--json", description = "Answers in JSON.")
    boolean json;

    /// This command.
    @Spec CommandSpec spec = CommandSpec.create();

    /// Where the answer goes.
    final PrintWriter out() {
        return spec.commandLine().getOut();
    }

    /// The exception for an invalid command line.
    final ParameterException wrong(String what) {
        return new ParameterException(spec.commandLine(), what);
    }
}
