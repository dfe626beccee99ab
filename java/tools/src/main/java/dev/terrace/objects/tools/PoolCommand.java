package dev.terrace.objects.tools;

import java.io.PrintWriter;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Spec;

/// A subcommand that works on a pool. It does something with the pool, and returns the exit status.
@Command(mixinStandardHelpOptions = true)
abstract class PoolCommand implements Callable<Integer> {
    /// The pool, and the form of the answer.
    @Mixin PoolArguments arguments = new PoolArguments();

    /// This command.
    @Spec CommandSpec spec = CommandSpec.create();

    /// Where the answer goes.
    final PrintWriter out() {
        return spec.commandLine().getOut();
    }
}
