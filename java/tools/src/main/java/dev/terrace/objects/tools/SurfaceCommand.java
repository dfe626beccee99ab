package dev.terrace.objects.tools;

import dev.terrace.objects.placement.BranchAndBoundSolver;
import dev.terrace.objects.placement.Surface;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/// Draws the surface of the paper's figure 3.
@Command(
        name = "surface",
        description =
                "Draws where two fields cost least, on memory or persistent memory, over how long"
                    + " their computation takes and how often memory is lost: the surface of the"
                    + " paper's figure 3.")
final class SurfaceCommand extends FileCommand {
    @Parameters(
            paramLabel = "FILE",
            description =
                    "Where the picture goes, as SVG; with a name that ends in .csv, the values.")
    private Path file = Path.of("");

    @Option(
            names = "--points",
            paramLabel = "N",
            description = "Points along each side; 41 without this option.")
    private int points = 41;

    @Override
    public Integer call() throws IOException {
        if (points < 2 || points > 200) {
            throw wrong("--points: " + points + " is not from 2 to 200");
        }
        Surface surface =
                Progress.during(spec, () -> Surface.paper(points, new BranchAndBoundSolver()));
        Files.writeString(file, file.toString().endsWith(".csv") ? surface.csv() : surface.svg());
        return Main.OK;
    }
}
