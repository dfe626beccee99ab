package dev.terrace.objects.placement;

import dev.terrace.objects.StorageTier;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;

/// The tiers that fields are to lie on, in a file that people may change before it is applied.
public final class PlacementFile {
    private static final JsonFile<Tiers> FORMAT =
            new JsonFile<>("terrace-placement", 1, Tiers.class);

    private record Tiers(Map<String, Map<String, List<StorageTier>>> tiers) {}

    private PlacementFile() {}

    /// Reads, by class and field, the tiers, the best first.
    ///
    /// @throws IOException if the file cannot be read, or is none of a placement, or of another
    ///   version, or is damaged; the message names it
    public static Map<String, Map<String, List<StorageTier>>> read(Path file) throws IOException {
        return FORMAT.read(file).tiers;
    }

    /// Writes them, in the place of the file if there is one.
    ///
    /// @throws IOException if that cannot be done; then the file is what it was
    public static void write(Path file, Map<String, Map<String, List<StorageTier>>> tiers)
            throws IOException {
        FORMAT.write(file, new Tiers(tiers));
    }
}
