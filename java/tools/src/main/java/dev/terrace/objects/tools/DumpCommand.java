package dev.terrace.objects.tools;

import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolDump;
import java.io.IOException;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;

/// Prints what a pool holds.
@Command(
        name = "dump",
        description =
                "Prints roots and classes, and with --objects what objects hold, without the"
                    + " program's classes. Only reads, as check does; each object is as one commit"
                    + " left it, also while a program writes.")
final class DumpCommand extends PoolCommand {
    private static final String ALL = "*";

    @Option(
            names = "--objects",
            paramLabel = "CLASS",
            arity = "0..1",
            fallbackValue = ALL,
            description =
                    "Prints objects: of this class (fully qualified), or of all. As"
                            + " --objects=CLASS.")
    private @Nullable String objects;

    @Option(names = "--limit", paramLabel = "N", description = "At most so many objects.")
    private long limit = Long.MAX_VALUE;

    @Option(
            names = "--elements",
            paramLabel = "N",
            description =
                    "At most so many elements of each list, array, map and sorted map; 16 without"
                            + " this option.")
    private int elements = 16;

    @Override
    public Integer call() throws IOException {
        if (limit < 0 || elements < 0) {
            throw new ParameterException(
                    spec.commandLine(),
                    (limit < 0 ? "--limit" : "--elements") + " is not negative");
        }
        try (PoolArguments.Opened opened = arguments.openToRead()) {
            Pool pool = opened.pool();
            PoolDump dump = new PoolDump(pool, elements);
            String wanted = ALL.equals(objects) ? null : objects;
            if (wanted != null && !dump.forms().containsKey(wanted)) {
                throw new ParameterException(
                        spec.commandLine(),
                        "the pool has no class " + wanted + "; it has " + dump.forms().keySet());
            }
            DumpWriter writer = new DumpWriter(dump, out());
            long most = objects == null ? 0 : limit;
            if (arguments.isJson()) {
                writer.json(wanted, most);
            } else {
                writer.text(wanted, most);
            }
            return Main.OK;
        }
    }
}
