package dev.terrace.objects.tools;

import dev.terrace.objects.Backups;
import dev.terrace.objects.Pool;
import dev.terrace.objects.PoolReport;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// Makes a pool of a backup.
@Command(
        name = "restore",
        description =
                "Makes a new pool of a backup, with an identity of its own, so it needs backups of"
                        + " its own. Overwrites nothing.")
final class RestoreCommand extends FileCommand {
    @Parameters(index = "0", paramLabel = "DIR", description = "The directory of backups.")
    private Path directory = Path.of("");

    @Parameters(index = "1", paramLabel = "POOL", description = "The new pool's directory.")
    private Path pool = Path.of("");

    @Mixin private TierArguments tiers = new TierArguments();

    @Option(
            names = "--backup",
            paramLabel = "N",
            description = "The number of the backup; without this option, the last.")
    private @Nullable Long number;

    @Option(names = "--check", description = "Checks the new pool.")
    private boolean check;

    @Override
    public Integer call() throws IOException {
        Backups backups = Backups.in(directory);
        return tiers.use((options, segments) -> {
            if (segments != null) {
                segments.close();
                throw wrong("--remote: backups hold nothing of a remote tier");
            }
            Long wanted = number;
            UUID id =
                    Progress.during(
                            spec,
                            BackupCommand.quietly(() ->
                                    wanted == null
                                            ? backups.restore(pool, options)
                                            : backups.restore(wanted, pool, options)));
            List<String> problems = List.of();
            if (check) {
                try (Pool opened = Pool.open(pool, options.toRead())) {
                    PoolReport report = Progress.during(spec, opened::check);
                    problems = report.problems();
                }
            }
            print(id, problems);
            return problems.isEmpty() ? Main.OK : Main.DAMAGED;
        });
    }

    private void print(UUID id, List<String> problems) {
        if (json) {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("pool", id);
            map.put("problems", problems);
            out().println(Json.of(map));
        } else {
            out().println("restored as pool " + id);
            problems.forEach(problem -> out().println("damaged: " + Text.oneLine(problem)));
            if (check && problems.isEmpty()) {
                out().println("The pool is sound.");
            }
        }
    }
}
