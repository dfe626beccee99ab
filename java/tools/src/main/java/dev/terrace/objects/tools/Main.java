package dev.terrace.objects.tools;

import dev.terrace.objects.PoolDamagedException;
import dev.terrace.objects.TerraceException;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;
import picocli.CommandLine;
import picocli.CommandLine.Command;

/// The command. Its exit status is like fsck's.
@Command(
        name = "terrace-objects",
        description =
                "Looks at a pool of durable objects, exports them, frees what none of its roots"
                        + " reaches, and moves the rest together; and finds, from what programs did"
                        + " with the objects, the tier on which each of their fields costs least.",
        subcommands = {
            CheckCommand.class,
            StatsCommand.class,
            DumpCommand.class,
            ExportCommand.class,
            CollectCommand.class,
            CompactCommand.class,
            SealCommand.class,
            BackupCommand.class,
            BackupsCommand.class,
            RestoreCommand.class,
            ProfileCommand.class,
            ProbeCommand.class,
            PlaceCommand.class,
            ApplyCommand.class,
            SurfaceCommand.class
        },
        mixinStandardHelpOptions = true,
        version = "terrace-objects 0.1.0",
        exitCodeListHeading = "Exit status:%n",
        exitCodeList = {
            "0:done; the pool is sound, as far as it was looked at",
            "2:the command line is wrong",
            "4:the pool is damaged, or a backup",
            "8:it could not be done: no pool, a pool in use, no permission"
        })
public final class Main {
    static final int OK = 0;
    static final int DAMAGED = 4;
    static final int FAILED = 8;

    private Main() {}

    /// Runs the command.
    public static void main(String[] arguments) {
        PrintWriter out = new PrintWriter(System.out, false, StandardCharsets.UTF_8);
        PrintWriter err = new PrintWriter(System.err, true, StandardCharsets.UTF_8);
        int status = run(out, err, arguments);
        out.flush();
        System.exit(out.checkError() && status == OK ? FAILED : status);
    }

    /// Runs it, and returns the exit status.
    static int run(PrintWriter out, PrintWriter err, String... arguments) {
        CommandLine line = new CommandLine(new Main()).setOut(out).setErr(err);
        line.setCaseInsensitiveEnumValuesAllowed(true);
        line.setExecutionExceptionHandler((failure, command, _) -> {
            out.flush();
            err.println(command.getCommandSpec().qualifiedName() + ": " + message(failure));
            return failure instanceof PoolDamagedException ? DAMAGED : FAILED;
        });
        return line.execute(arguments);
    }

    private static String message(Exception failure) throws Exception {
        return switch (failure) {
            case TerraceException e -> String.valueOf(e.getMessage());
            case NoSuchFileException e -> e.getFile() + " is not there";
            case AccessDeniedException e -> e.getFile() + ": permission denied";
            case FileSystemException e ->
                    e.getFile()
                            + ": "
                            + (e.getReason() == null
                                    ? e.getClass().getSimpleName()
                                    : e.getReason());
            case IOException e -> String.valueOf(e.getMessage());
            case UncheckedIOException e -> message(e.getCause());
            // A mistake of this program: what happened is wanted then.
            default -> throw failure;
        };
    }
}
