package dev.terrace.objects.tools;

import dev.terrace.objects.Backup;
import dev.terrace.objects.Backups;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// Shows the backups of a pool.
@Command(name = "backups", description = "Shows the backups in a directory, the oldest first.")
final class BackupsCommand extends FileCommand {
    @Parameters(paramLabel = "DIR", description = "The directory of backups.")
    private Path directory = Path.of("");

    @Option(names = "--verify", description = "Reads all of them, and compares each checksum.")
    private boolean verify;

    @Override
    public Integer call() throws IOException {
        Backups backups = Backups.in(directory);
        List<String> problems =
                verify ? Progress.during(spec, BackupCommand.quietly(backups::verify)) : List.of();
        List<Backup> all = problems.isEmpty() ? backups.list() : List.of();
        if (json) {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("problems", problems);
            map.put("backups", all.stream().map(BackupCommand::asMap).toList());
            out().println(Json.of(map));
        } else {
            problems.forEach(problem -> out().println("damaged: " + Text.oneLine(problem)));
            all.forEach(backup -> out().println(BackupCommand.describe(backup)));
            if (verify && problems.isEmpty()) {
                out().println("The backups are sound.");
            }
        }
        return problems.isEmpty() ? Main.OK : Main.DAMAGED;
    }
}
