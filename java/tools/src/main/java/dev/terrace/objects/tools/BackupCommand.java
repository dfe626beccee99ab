package dev.terrace.objects.tools;

import dev.terrace.objects.Backup;
import dev.terrace.objects.Backups;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Supplier;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;

/// Backs a pool up.
@Command(
        name = "backup",
        description =
                "Backs a pool up as of one commit, also while a program writes to it, and checks"
                    + " the copy. Stores only blocks that no earlier backup in the directory has.")
final class BackupCommand extends PoolCommand {
    @Option(
            names = "--to",
            paramLabel = "DIR",
            required = true,
            description = "The directory of the pool's backups; a new or an empty one at first.")
    private Path directory = Path.of("");

    @Option(
            names = "--keep",
            paramLabel = "N",
            description = "Removes all backups but the last N; without this option, none.")
    private int keep = Integer.MAX_VALUE;

    @Option(
            names = "--unchecked",
            description =
                    "Does not check the copy. A check needs room for all of the pool in the"
                            + " directory for a while.")
    private boolean unchecked;

    /// Work that may fail as input and output do.
    interface Work<T> {
        T run() throws IOException;
    }

    /// Such work, in place of work that may not.
    static <T> Supplier<T> quietly(Work<T> work) {
        return () -> {
            try {
                return work.run();
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        };
    }

    @Override
    public Integer call() throws IOException {
        if (keep < 1) {
            throw new ParameterException(spec.commandLine(), "--keep is at least 1");
        }
        Backups backups = Backups.in(directory);
        try (PoolArguments.Opened opened = arguments.openToRead()) {
            Backup backup =
                    Progress.during(spec, quietly(() -> backups.add(opened.pool(), !unchecked)));
            int removed = backups.keep(keep);
            if (arguments.isJson()) {
                Map<String, Object> map = asMap(backup);
                map.put("removed", removed);
                out().println(Json.of(map));
            } else {
                out().println(describe(backup));
                if (removed > 0) {
                    out().println("removed: " + Text.count(removed, "backup"));
                }
            }
            return Main.OK;
        }
    }

    /// A backup, for JSON.
    static Map<String, Object> asMap(Backup backup) {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("backup", backup.number());
        map.put("time", backup.time());
        map.put("pool", backup.pool());
        map.put("commit", backup.commit());
        map.put("bytes", backup.bytes());
        map.put("stored_bytes", backup.bytesStored());
        return map;
    }

    /// A backup, for people.
    static String describe(Backup backup) {
        return "backup "
                + backup.number()
                + " of "
                + backup.time()
                + ": commit "
                + backup.commit()
                + ", "
                + Text.bytes(backup.bytes())
                + ", "
                + Text.bytes(backup.bytesStored())
                + " of them new";
    }
}
