package dev.terrace.objects.tools;

import dev.terrace.objects.placement.PlacementFile;
import dev.terrace.objects.placement.source.Retagging;
import dev.terrace.objects.placement.source.SourceTagger;
import dev.terrace.objects.placement.source.TaggingException;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// Applies a placement to sources.
@Command(
        name = "sources",
        description =
                "Tags fields in Java sources as a placement says. Only the tags change: all files,"
                        + " or, if something is in the way, none.")
final class ApplySourcesCommand extends FileCommand {
    @Parameters(
            arity = "1..*",
            paramLabel = "PATH",
            description = "Files, and directories with all Java files below them.")
    private List<Path> places = List.of();

    @Option(
            names = "--placement",
            required = true,
            paramLabel = "FILE",
            description = "What `place` wrote.")
    private Path placement = Path.of("");

    @Option(
            names = "--dry-run",
            description = "Changes nothing: shows what would change, as a patch.")
    private boolean dryRun;

    @Override
    public Integer call() throws IOException {
        Retagging retagging;
        try {
            retagging = SourceTagger.of(places).retag(PlacementFile.read(placement));
        } catch (TaggingException e) {
            throw new IOException(String.valueOf(e.getMessage()), e);
        }
        if (!dryRun) {
            retagging.apply();
        }
        List<String> changed = retagging.changes().keySet().stream().map(Path::toString).toList();
        if (json) {
            Map<String, Object> map = new LinkedHashMap<>();
            map.put("changed", changed);
            map.put("patch", retagging.diff());
            out().println(Json.of(map));
        } else if (dryRun) {
            out().print(retagging.diff());
        } else {
            changed.forEach(file -> out().println("changed: " + file));
        }
        return Main.OK;
    }
}
